"""The API server over HTTP: the production twin of `kube/memory`.

access       where the server is and who asks
kubeconfig   the same, from kubeconfig files
locate       which of them is meant, and what a pod finds in its own file system
credentials  tokens that reload, exec plugins, client certificates
rate         how many requests may leave
wire         paths, bodies, and what answers mean
told         what is told of requests
transport    one connection pool: requests, timeouts, credentials that run out
watch        changes of one kind, for ever, over connections that end
client       the typed port
"""
