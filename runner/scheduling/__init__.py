"""Who judges what, and when: the plan, dispatch, supervision of workers, recovery from crashes."""
