"""The fields of KubeletConfiguration v1beta1 and their types.

s is text, i a whole number, n a number, b true or false, d a duration, o an object; `[t` is a list and `{t` a
map with values of type t.
"""

from __future__ import annotations

_WRITTEN = """
allowedUnsafeSysctls=[s apiVersion=s authentication=o authorization=o address=s cgroupDriver=s cgroupRoot=s
cgroupsPerQOS=b clusterDNS=[s clusterDomain=s configMapAndSecretChangeDetectionStrategy=s
containerLogMaxFiles=i containerLogMaxSize=s containerLogMaxWorkers=i containerLogMonitorInterval=d
containerRuntimeEndpoint=s contentType=s cpuCFSQuota=b cpuCFSQuotaPeriod=d cpuManagerPolicy=s
cpuManagerPolicyOptions={s cpuManagerReconcilePeriod=d crashLoopBackOff=o enableContentionProfiling=b
enableControllerAttachDetach=b enableDebugFlagsHandler=b enableDebuggingHandlers=b enableProfilingHandler=b
enableServer=b enableSystemLogHandler=b enableSystemLogQuery=b enforceNodeAllocatable=[s eventBurst=i
eventRecordQPS=i evictionHard={s evictionMaxPodGracePeriod=i evictionMinimumReclaim={s
evictionPressureTransitionPeriod=d evictionSoft={s evictionSoftGracePeriod={s failCgroupV1=b failSwapOn=b
featureGates={b fileCheckFrequency=d hairpinMode=s healthzBindAddress=s healthzPort=i httpCheckFrequency=d
imageGCHighThresholdPercent=i imageGCLowThresholdPercent=i imageMaximumGCAge=d imageMinimumGCAge=d
imagePullCredentialsVerificationPolicy=s imageServiceEndpoint=s iptablesDropBit=i iptablesMasqueradeBit=i
kernelMemcgNotification=b kind=s kubeAPIBurst=i kubeAPIQPS=i kubeReserved={s kubeReservedCgroup=s
kubeletCgroups=s localStorageCapacityIsolation=b logging=o makeIPTablesUtilChains=b maxOpenFiles=i
maxParallelImagePulls=i maxPods=i memoryManagerPolicy=s memorySwap=o memoryThrottlingFactor=n
mergeDefaultEvictionSettings=b nodeLeaseDurationSeconds=i nodeStatusMaxImages=i nodeStatusReportFrequency=d
nodeStatusUpdateFrequency=d oomScoreAdj=i podCIDR=s podLogsDir=s podPidsLimit=i podsPerCore=i port=i
preloadedImagesVerificationAllowlist=[s protectKernelDefaults=b providerID=s qosReserved={s readOnlyPort=i
registerNode=b registerWithTaints=[o registryBurst=i registryPullQPS=i reservedMemory=[o
reservedSystemCPUs=s resolvConf=s rotateCertificates=b runOnce=b runtimeRequestTimeout=d seccompDefault=b
serializeImagePulls=b serverTLSBootstrap=b showHiddenMetricsForVersion=s shutdownGracePeriod=d
shutdownGracePeriodByPodPriority=[o shutdownGracePeriodCriticalPods=d singleProcessOOMKill=b staticPodPath=s
staticPodURL=s staticPodURLHeader={[s streamingConnectionIdleTimeout=d syncFrequency=d systemCgroups=s
systemReserved={s systemReservedCgroup=s tlsCertFile=s tlsCipherSuites=[s tlsMinVersion=s
tlsPrivateKeyFile=s topologyManagerPolicy=s topologyManagerPolicyOptions={s topologyManagerScope=s tracing=o
userNamespaces=o volumePluginDir=s volumeStatsAggPeriod=d
"""
FIELDS: dict[str, str] = dict(item.split("=", 1) for item in _WRITTEN.split())
# Of those that are objects, or lists of objects.
NESTED: dict[str, tuple[str, ...]] = {
    "authentication": ("anonymous", "webhook", "x509"),
    "authorization": ("mode", "webhook"),
    "crashLoopBackOff": ("maxContainerRestartPeriod",),
    "logging": ("flushFrequency", "format", "options", "verbosity", "vmodule"),
    "memorySwap": ("swapBehavior",),
    "reservedMemory": ("limits", "numaNode"),
    "shutdownGracePeriodByPodPriority": ("priority", "shutdownGracePeriodSeconds"),
    "tracing": ("endpoint", "samplingRatePerMillion"),
    "userNamespaces": ("idsPerPod",),
}

# What the families that start the kubelet with flags or settings of their own can pass on.
PASSED_ON = frozenset(
    {
        "clusterDNS",
        "cpuCFSQuota",
        "evictionHard",
        "evictionMaxPodGracePeriod",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "kubeReserved",
        "maxPods",
        "podsPerCore",
        "systemReserved",
    }
)
SIGNALS = (
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
)
RESERVABLE = ("cpu", "ephemeral-storage", "memory", "pid")


def misfit(kind: str, value: object) -> str:
    """What a value of this type would be; "" for one that is."""
    if kind[0] == "[":
        fits = isinstance(value, list) and not any(misfit(kind[1:], item) for item in value)
        return "" if fits else f"a list, each item {_WORDS[kind[1]]}"
    if kind[0] == "{":
        fits = isinstance(value, dict) and not any(misfit(kind[1:], item) for item in value.values())
        return "" if fits else f"a map, each value {_WORDS[kind[1]]}"
    fits = isinstance(value, _TYPES[kind]) and (kind == "b" or not isinstance(value, bool))
    return "" if fits else _WORDS[kind]


_WORDS = {
    "s": "text",
    "d": "a duration such as 30s",
    "i": "a whole number",
    "n": "a number",
    "b": "true or false",
    "o": "an object",
    "[": "a list",
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "s": str,
    "d": str,
    "i": int,
    "n": (int, float),
    "b": bool,
    "o": dict,
}
