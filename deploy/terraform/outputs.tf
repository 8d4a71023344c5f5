output "controller_role_arn" {
  description = "The controller's role."
  value       = aws_iam_role.controller.arn
}

output "node_role_name" {
  description = "What EC2NodeClasses name as spec.role."
  value       = local.node_role_name
}

output "interruption_queue" {
  description = "Name of the queue."
  value       = aws_sqs_queue.interruption.name
}
