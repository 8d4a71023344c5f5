"""What `dovetail top` shows: a pure model of the cluster, the lines of it, and a terminal application.

order    natural order of labels, and what nodes can be sorted by
board    objects as they come in -> rows and sums, kept up to date by what changed
text     rows and sums -> lines, under the words of eks-node-viewer
beyond   what that viewer lacks: claims, pending pods, why nodes stay, what comes next
records  an event log, of a simulation or of the controller, as the objects of a board
feed     where a board's objects come from: a cluster's watches, a log, a simulation that plays
app      the terminal application; the only module that imports Textual
"""
