# The nodes' role. The instance profiles around it are made by the controller, one per EC2NodeClass.

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = [local.partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "node" {
  count = var.create_node_role ? 1 : 0

  name                 = local.node_role_name
  description          = "Nodes of ${var.cluster_name} that Dovetail launches"
  assume_role_policy   = data.aws_iam_policy_document.node_trust.json
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = var.create_node_role ? toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"]) : toset([])

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

# What lets machines with that role join the cluster.
resource "aws_eks_access_entry" "node" {
  count = var.create_node_role ? 1 : 0

  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node[0].arn
  type          = "EC2_LINUX"
  tags          = var.tags
}
