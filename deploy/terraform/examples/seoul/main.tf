# A cluster in Seoul: two nodes of a managed node group carry the controller, everything else lands on nodes that
# the pool below makes, spot first.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.50"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 2.12, < 3.0"
    }
  }
}

provider "aws" {
  region = "ap-northeast-2"
}

data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

provider "helm" {
  kubernetes {
    host                   = data.aws_eks_cluster.this.endpoint
    cluster_ca_certificate = base64decode(data.aws_eks_cluster.this.certificate_authority[0].data)
    exec {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--cluster-name", var.cluster_name]
    }
  }
}

# The controller launches into subnets and with security groups that carry this tag, spelled exactly like this.
resource "aws_ec2_tag" "discovery" {
  for_each = setunion(var.subnet_ids, var.security_group_ids)

  resource_id = each.value
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}

locals {
  # Apart from the controller's role, with which no machine can join.
  node_role = "${var.cluster_name}-karpenter-nodes"
}

module "dovetail" {
  source = "../.."

  cluster_name     = var.cluster_name
  cluster_endpoint = data.aws_eks_cluster.this.endpoint
  image_repository = var.image_repository
  node_role_name   = local.node_role

  node_pools = templatefile("${path.module}/pools.yaml.tftpl", {
    cluster   = var.cluster_name
    node_role = local.node_role
  })

  depends_on = [aws_ec2_tag.discovery]
}
