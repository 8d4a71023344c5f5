"""The API server over HTTP: in production what `kube/memory` is in simulations and tests.

access       where the server is and who asks
kubeconfig   the same, from kubeconfig files: which is meant, and what a pod finds in its own file system
credentials  tokens that reload, exec plugins, client certificates
rate         how many requests may leave
wire         paths, bodies, and what answers mean
transport    one connection pool: requests, timeouts, credentials that run out
watch        changes of one kind, for ever, over connections that end
client       the typed port
"""
