locals {
  eks_name              = var.eks_name
  cluster_endpoint      = var.cluster_endpoint
  irsa_role_name        = var.irsa_role_name
  instance_profile_name = var.instance_profile_name
  queue_name            = var.queue_name
}

resource "helm_release" "karpenter" {
  name = "karpenter"

  repository       = "oci://public.ecr.aws/karpenter"
  create_namespace = true
  namespace        = "karpenter"
  chart            = "karpenter"
  version          = "1.3.3"
  upgrade_install  = true

  set {
    name  = "settings.clusterName"
    value = local.eks_name
  }

  set {
    name  = "settings.interruptionQueueName"
    value = local.queue_name
  }
}

resource "kubernetes_manifest" "karpenter_provisioner" {
  manifest = {
    apiVersion = "karpenter.sh/v1"
    kind       = "NodePool"
    metadata = {
      name = "karpenter-node-pool"
    }
    spec = {
      template = {
        spec = {
          nodeClassRef = {
            group = "karpenter.k8s.aws"
            kind  = "EC2NodeClass"
            name  = "karpenter-node-template"
          }
          requirements = [
            {
              key      = "karpenter.sh/capacity-type"
              operator = "In"
              values   = ["spot", "on-demand"]
            },
            {
              key      = "node.kubernetes.io/instance-type"
              operator = "In"
              values   = ["m7i-flex.2xlarge", "m7i.2xlarge", "m5.2xlarge", "m5a.2xlarge", "m5ad.2xlarge", "m5n.2xlarge"]
            },
            {
              key      = "topology.kubernetes.io/zone"
              operator = "In"
              values   = ["ap-northeast-2a", "ap-northeast-2c"]
            }
          ]
          expireAfter = "60m"
        }
      }
      limits = {
        cpu    = "1000"
        memory = "1000Gi"
      }
    }
  }

  depends_on = [
    helm_release.karpenter
  ]
}

resource "kubernetes_manifest" "karpenter_node_template" {
  manifest = {
    apiVersion = "karpenter.k8s.aws/v1"
    kind       = "EC2NodeClass"
    metadata = {
      name = "karpenter-node-template"
    }
    spec = {
      role = local.irsa_role_name
      amiSelectorTerms = [
        {
          alias = "al2023@v20250403"
        }
      ]
      subnetSelectorTerms = [
        {
          tags = {
            "karpenter.sh/discovery" = local.eks_name
          }
        }
      ]
      securityGroupSelectorTerms = [
        {
          tags = {
            "karpenter.sh/discovery" = local.eks_name
          }
        }
      ]
      instanceProfile = local.instance_profile_name
      blockDeviceMappings = [
        {
          deviceName = "/dev/xvda"
          ebs = {
            volumeSize = "1000Gi"
            volumeType = "gp3"
            iops       = 3000
          }
        }
      ]
      tags = {
        "karpenter.sh/discovery" = local.eks_name
      }
    }
  }

  depends_on = [
    helm_release.karpenter
  ]
}

