# What AWS announces about instances comes through this queue (settings.interruptionQueue).

resource "aws_sqs_queue" "interruption" {
  name                      = "dovetail-${substr(var.cluster_name, 0, 71)}"
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

data "aws_iam_policy_document" "queue" {
  statement {
    sid       = "SendFromRules"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.interruption.arn]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [for rule in aws_cloudwatch_event_rule.interruption : rule.arn]
    }
  }

  statement {
    sid       = "OnlyEncrypted"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.interruption.arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = data.aws_iam_policy_document.queue.json
}

locals {
  announcements = {
    health      = { source = "aws.health", kinds = ["AWS Health Event"] }
    spot        = { source = "aws.ec2", kinds = ["EC2 Spot Instance Interruption Warning"] }
    rebalance   = { source = "aws.ec2", kinds = ["EC2 Instance Rebalance Recommendation"] }
    state       = { source = "aws.ec2", kinds = ["EC2 Instance State-change Notification"] }
    reservation = { source = "aws.ec2", kinds = ["EC2 Capacity Reservation Instance Interruption Warning"] }
  }
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.announcements

  name_prefix   = "dovetail-${each.key}-"
  description   = "For the nodes of ${var.cluster_name}"
  event_pattern = jsonencode({ source = [each.value.source], "detail-type" = each.value.kinds })
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption

  rule      = each.value.name
  target_id = "dovetail"
  arn       = aws_sqs_queue.interruption.arn
}
