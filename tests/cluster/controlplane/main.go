// Command controlplane holds every program that a Kubernetes control plane for tests needs: etcd,
// kube-apiserver, kube-scheduler, kube-controller-manager, kwok (which plays the kubelet of every node),
// kubectl and helm. The name it is called by, or else its first argument, says which of them it is.
// "controlplane kwok-stages" prints how kwok plays nodes and pods.
//
// One program instead of seven: they share most of their code, and are linked once.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	helmkube "helm.sh/helm/v4/pkg/kube"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeats "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// Each program returns its exit code.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"helm":                    func() int { return exitCode(runHelm()) },
	"kwok":                    func() int { return exitCode(runKwok()) },
	"kwok-stages":             printStages,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := programs[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%q is none of the programs in here\n", name)
		os.Exit(2)
	}
	os.Exit(run())
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var told helmcmd.CommandError // helm has said what is wrong already
	if errors.As(err, &told) {
		return told.ExitCode
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func runKubectl() int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

func runHelm() error {
	helmkube.ManagedFieldsManager = "helm"
	command, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err != nil {
		return err
	}
	return command.Execute()
}

func runKwok() error {
	// The Kubernetes components register a global --version that is no bool; kwok's command cannot have it.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), global)
	ctx, err := kwokconfig.InitFlags(ctx, global)
	if err != nil {
		return err
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(global)
	return command.ExecuteContext(ctx)
}

func printStages() int {
	fmt.Println(strings.Join([]string{
		nodestages.DefaultNodeInit, heartbeats.DefaultNodeHeartbeat,
		podstages.DefaultPodReady, podstages.DefaultPodComplete, podstages.DefaultPodDelete,
	}, "\n---\n"))
	return 0
}
