"""Whether a controller could work in an account, found out before anything is installed.

finding   what was found out about one thing, and what to do about it
account   all of it: identity, permissions, endpoints, cluster, queue, tags, and a class if one is given
"""
