package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// nodeCPU is what its node has, in millicores.
const nodeCPU = 4000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "oscarpod:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	id := flag.String("id", "oscar", "id of the cluster")
	services := flag.String("services", "oscar-svc", "namespace of the services")
	password := flag.String("password-file", "", "file with the administrator's password")
	free := flag.Int64("free", nodeCPU, "millicores that are free on its one node, as it says of itself")
	listen := flag.String("listen", ":8443", "address")
	certFile := flag.String("tls-cert-file", "", "certificate")
	keyFile := flag.String("tls-key-file", "", "its key")
	flag.Parse()
	secret, err := os.ReadFile(*password)
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(*certFile, *keyFile)
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}})
	taken := nodeCPU - *free
	return oscarsim.New(oscarsim.Config{
		ClusterID: *id, User: "oscar", Password: strings.TrimSpace(string(secret)),
		ServicesNamespace: *services, Kubernetes: &below{client},
		Nodes:  []oscarsim.Node{{Name: *id + "-node-1", CPU: nodeCPU, Memory: 4 << 30, UsedCPU: taken, RequestCPU: taken}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}).Serve(ctx, listener)
}
