"""What is played, as files say it.

scenario    the folder: scenario.yaml, and the manifests beside it
policy      the autoscalers that can be played
schema      scenario.yaml, field by field; document reads it strictly, rules says what types alone do not
manifests   manifests put into the API server, and changes to them
latency, traffic, trace   distributions of durations, load over the day, pods from a CSV file
settings    a scenario's settings as the controllers take them
"""
