# The controller's role: what it may do is in policies/, one file per purpose, each below IAM's 6,144 characters.

locals {
  places = {
    partition     = local.partition
    region        = local.region
    account       = local.account
    cluster       = var.cluster_name
    queue_arn     = aws_sqs_queue.interruption.arn
    node_role_arn = local.node_role_arn
  }

  policies = merge(
    { for name in ["launch", "describe", "profiles", "interruption"] : name => templatefile("${path.module}/policies/${name}.json.tftpl", local.places) },
    var.read_quotas ? { quotas = templatefile("${path.module}/policies/quotas.json.tftpl", local.places) } : {},
    var.reboot_for_repair ? { reboots = templatefile("${path.module}/policies/reboots.json.tftpl", local.places) } : {},
    var.zonal_shift ? { zonalshift = templatefile("${path.module}/policies/zonalshift.json.tftpl", local.places) } : {},
    length(var.ssm_parameter_arns) == 0 ? {} : {
      images = jsonencode({
        Version = "2012-10-17"
        Statement = [{
          Sid      = "ReadOwnImageParameters"
          Effect   = "Allow"
          Action   = "ssm:GetParameter"
          Resource = var.ssm_parameter_arns
        }]
      })
    },
  )

  oidc_issuer = var.identity == "irsa" ? replace(var.oidc_provider_arn, "/^arn:[^/]*:oidc-provider\\//", "") : ""
}

data "aws_iam_policy_document" "controller_trust" {
  dynamic "statement" {
    for_each = var.identity == "pod-identity" ? [1] : []
    content {
      actions = ["sts:AssumeRole", "sts:TagSession"]
      principals {
        type        = "Service"
        identifiers = ["pods.eks.amazonaws.com"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.identity == "irsa" ? [1] : []
    content {
      actions = ["sts:AssumeRoleWithWebIdentity"]
      principals {
        type        = "Federated"
        identifiers = [var.oidc_provider_arn]
      }
      condition {
        test     = "StringEquals"
        variable = "${local.oidc_issuer}:sub"
        values   = ["system:serviceaccount:${var.namespace}:${var.service_account}"]
      }
      condition {
        test     = "StringEquals"
        variable = "${local.oidc_issuer}:aud"
        values   = ["sts.amazonaws.com"]
      }
    }
  }
}

resource "aws_iam_role" "controller" {
  name_prefix          = "dovetail-controller-"
  description          = "Dovetail's controller on ${var.cluster_name}"
  assume_role_policy   = data.aws_iam_policy_document.controller_trust.json
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags

  lifecycle {
    precondition {
      condition     = var.identity != "irsa" || var.oidc_provider_arn != ""
      error_message = "identity = irsa needs oidc_provider_arn, the cluster's OIDC provider in IAM."
    }
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies

  name_prefix = "dovetail-${each.key}-"
  policy      = each.value
  tags        = var.tags
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = aws_iam_policy.controller

  role       = aws_iam_role.controller.name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.identity == "pod-identity" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
  tags            = var.tags
}
