variable "cluster_name" {
  description = "Name of an EKS cluster in ap-northeast-2 with the add-on eks-pod-identity-agent."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets for nodes, in ap-northeast-2a and 2c."
  type        = set(string)
}

variable "security_group_ids" {
  description = "Security groups for nodes."
  type        = set(string)
}

variable "image_repository" {
  description = "Where the image built from the Containerfile lies."
  type        = string
}
