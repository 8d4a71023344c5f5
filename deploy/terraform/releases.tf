# Three releases, in order. NodePools come through a chart: a kubernetes_manifest would ask the API server for
# their kind while planning, when the definitions are not there yet.

resource "helm_release" "crds" {
  name             = "dovetail-crds"
  repository       = local.remote ? local.charts : null
  chart            = local.remote ? "dovetail-crds" : "${local.charts}/dovetail-crds"
  namespace        = var.namespace
  create_namespace = true
}

resource "helm_release" "controller" {
  name       = "dovetail"
  repository = local.remote ? local.charts : null
  chart      = local.remote ? "dovetail" : "${local.charts}/dovetail"
  namespace  = var.namespace
  skip_crds  = true

  values = [
    yamlencode({
      controller = { image = { repository = var.image_repository, tag = var.image_tag } }
      serviceAccount = {
        name        = var.service_account
        annotations = var.identity == "irsa" ? { "eks.amazonaws.com/role-arn" = aws_iam_role.controller.arn } : {}
      }
      settings = {
        clusterName       = var.cluster_name
        clusterEndpoint   = var.cluster_endpoint
        interruptionQueue = aws_sqs_queue.interruption.name
        enableZonalShift  = var.zonal_shift
        awsFeatureGates   = { rebootForRepair = var.reboot_for_repair }
      }
    }),
    var.values,
  ]

  # Pods that start before their identity is there would start without one.
  depends_on = [
    helm_release.crds,
    aws_eks_pod_identity_association.controller,
    aws_iam_role_policy_attachment.controller,
    aws_sqs_queue_policy.interruption,
  ]
}

resource "helm_release" "node_pools" {
  count = var.node_pools == "" ? 0 : 1

  name       = "dovetail-nodepools"
  repository = local.remote ? local.charts : null
  chart      = local.remote ? "dovetail-nodepools" : "${local.charts}/dovetail-nodepools"
  namespace  = var.namespace
  values     = [var.node_pools]

  depends_on = [helm_release.controller, aws_eks_access_entry.node]
}
