"""From what happened to figures.

observer        stored changes of the API server as records of the event log
log             the event log, and how far a simulation is, read as it grows
summary         the figures of a simulation; figures is their shape, summary_table shows them
waiting         where the time of waiting pods went
disruptions     which nodes were ended before their time, why, and what that saved
"""
