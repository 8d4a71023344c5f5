"""What goes wrong in a simulation, as a file says and a seed decides.

kinds      every kind of fault: how it fires and what may be said about it
plan       the file, field by field, read and found sound, with the instants that its seed drew
dice       whether a fault happens now; counts and logs those that did
epoch      one process of the controllers: after its crash every call of it comes to nothing
client     the API server's port, with faults
watching   the events of one watch, with faults
past       what the API server held a moment ago, for stale reads
aws        the AWS port, with faults
account    what goes wrong in AWS itself, whoever asks
provider   the cloud's port, with faults
clock      a clock that is wrong for a while
processes  the controllers' processes: crashes, restarts, changes of leader
tenant     what a tenant creates that means harm
actors     what happens to the cluster by itself: storms, shortages, dead kubelets
"""
