data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  partition = data.aws_partition.current.partition
  # "name" until version 5 of the provider, "region" since version 6.
  region  = try(data.aws_region.current.region, data.aws_region.current.name)
  account = data.aws_caller_identity.current.account_id
  charts  = var.charts == "" ? abspath("${path.module}/../../charts") : var.charts

  # A folder is given as a path, a repository by its address and the chart's name.
  remote = startswith(local.charts, "oci://") || startswith(local.charts, "https://")

  # Names are written here rather than made by AWS, so that a plan knows them.
  node_role_name = coalesce(var.node_role_name, "dovetail-nodes-${var.cluster_name}")
  node_role_arn  = "arn:${local.partition}:iam::${local.account}:role/${local.node_role_name}"
}
