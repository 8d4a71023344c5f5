"""Whether a controller could work in an account, found out before anything is installed.

finding   what was found out about one thing, and what to do about it
probes    one harmless call per permission
account   all of it: identity, permissions, endpoints, cluster, queue, tags, and a class if one is given
"""
