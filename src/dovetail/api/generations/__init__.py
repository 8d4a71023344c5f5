"""The API's older generations, and how their objects become today's.

v1alpha5 and v1alpha1 (Provisioner, Machine, AWSNodeTemplate) were admitted by webhooks, v1beta1 (NodePool,
NodeClaim, EC2NodeClass) by rules in the definition. Each generation has its own schemas, defaults and
messages here, and pure functions lead from one to the next: v1alpha5 -> v1beta1 -> v1, and v1 -> v1beta1.

alpha_schema, alpha_webhook   what v1alpha5 and v1alpha1 may hold, their defaults and messages
beta_schema, beta_rules       what v1beta1 may hold, release by release
editing                       a document under change, and the record of what changed
alpha_to_beta, beta_to_v1     one step up, one object at a time, as the original converts
v1_to_beta                    one step down
workloads                     old labels, annotations and taints that workloads still name
upgrade                       whole sets of objects, with what only a set shows (kubelet of pools, classes)
helm_values                   values of charts that make such objects
written                       YAML with its style and comments, carried to what was converted
"""
