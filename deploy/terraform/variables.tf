variable "cluster_name" {
  description = "Name of the EKS cluster. It is part of every tag and of every condition in the policies."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be the name of an EKS cluster: 1 to 100 letters, digits, - and _."
  }
}

variable "cluster_endpoint" {
  description = "URL of the cluster's API server, for the nodes. Empty: the controller asks eks:DescribeCluster for it."
  type        = string
  default     = ""
}

variable "identity" {
  description = "How the controller's pods get their role: pod-identity (the EKS add-on eks-pod-identity-agent) or irsa."
  type        = string
  default     = "pod-identity"

  validation {
    condition     = contains(["pod-identity", "irsa"], var.identity)
    error_message = "identity must be pod-identity or irsa."
  }
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's OIDC provider in IAM; needed with identity = irsa."
  type        = string
  default     = ""
}

variable "namespace" {
  description = "Namespace of the release."
  type        = string
  default     = "karpenter"
}

variable "service_account" {
  description = "Name of the controller's service account."
  type        = string
  default     = "dovetail"
}

variable "node_role_name" {
  description = "Name of the nodes' role, which EC2NodeClasses name as spec.role; by default dovetail-nodes-CLUSTER. Never the controller's own role: nodes cannot join with that."
  type        = string
  default     = ""
}

variable "create_node_role" {
  description = "Make the nodes' role and its access entry. False: it exists, and its machines may join the cluster."
  type        = bool
  default     = true
}

variable "ssm_parameter_arns" {
  description = "Parameters of your own that EC2NodeClasses name as images; public ones are always readable."
  type        = list(string)
  default     = []
}

variable "read_quotas" {
  description = "See the account's vCPU quotas: plans keep to them, and dovetail check aws tells small ones."
  type        = bool
  default     = true
}

variable "zonal_shift" {
  description = "Avoid zones that AWS shifts away from (settings.enableZonalShift); the cluster has to take part in zonal shift."
  type        = bool
  default     = false
}

variable "reboot_for_repair" {
  description = "Reboot unhealthy nodes that a reboot may mend (settings.awsFeatureGates.rebootForRepair); node repair has to be on."
  type        = bool
  default     = false
}

variable "permissions_boundary" {
  description = "ARN of a permissions boundary for the roles made here."
  type        = string
  default     = null
}

variable "charts" {
  description = "Folder of the charts dovetail-crds, dovetail and dovetail-nodepools, or their repository, such as oci://registry.example.com/charts."
  type        = string
  default     = ""
}

variable "image_repository" {
  description = "Where the image built from the Containerfile lies."
  type        = string
}

variable "image_tag" {
  description = "Tag of the image; empty for the chart's appVersion."
  type        = string
  default     = ""
}

variable "values" {
  description = "Further values of charts/dovetail, as YAML; they win over those set here."
  type        = string
  default     = ""
}

variable "node_pools" {
  description = "Values of charts/dovetail-nodepools as YAML: NodePools and EC2NodeClasses. Empty: none are made."
  type        = string
  default     = ""
}

variable "tags" {
  description = "Tags of everything that is made here."
  type        = map(string)
  default     = {}
}
