"""What goes wrong in a simulation, as a file says and a seed decides.

kinds      every kind of fault: how it fires and what may be said about it
plan       the file, field by field, read and found sound, with the instants that its seed drew
dice       whether a fault happens now; counts and logs those that did
epoch      one process of the controllers: after its crash every call of it comes to nothing; a wrong clock
client     the API server's port, with faults: calls, watches, stale reads
aws        the AWS port, with faults, and what goes wrong in AWS itself
provider   the cloud's port, with faults
processes  the controllers' processes: crashes, restarts, changes of leader
tenant     what a tenant creates that means harm
actors     what happens to the cluster by itself: storms, shortages, dead kubelets
"""
