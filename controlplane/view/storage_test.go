package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestWhereStorageProvidersAre: of what inputs and outputs name, each once.
func TestWhereStorageProvidersAre(t *testing.T) {
	s := &oscar.Service{
		Input:  []oscar.IO{{Provider: "minio.default", Path: "b/in"}, {Provider: "webdav.dcache", Path: "in"}},
		Output: []oscar.IO{{Provider: "minio.default", Path: "b/out"}, {Provider: "minio.shared"}, {Provider: "s3.eu"}, {Provider: "s3.any"}, {Provider: "onedata.o"}, {Provider: "rucio.r"}, {Provider: "webdav.lost"}},
		StorageProviders: &oscar.StorageProviders{
			MinIO:   map[string]oscar.MinIOProvider{"shared": {Endpoint: "https://minio.example.org"}},
			S3:      map[string]oscar.S3Provider{"eu": {Region: "eu-west-1"}, "any": {}},
			WebDAV:  map[string]oscar.WebDAVProvider{"dcache": {Hostname: "dcache.example.org"}},
			Onedata: map[string]oscar.OnedataProvider{"o": {OneproviderHost: "one.example.org"}},
			Rucio:   map[string]oscar.RucioProvider{"r": {Host: "https://rucio.example.org"}},
		},
	}
	fed := &record.Federation{Members: []record.Member{
		{Type: oscar.MemberOSCAR, ClusterID: "a", ServiceName: "s0", Coordinator: true}, {Type: oscar.MemberOSCAR, ClusterID: "b", ServiceName: "s1"},
	}}
	at := func(member int) []view.Storage {
		return new(view.View).StorageOf(view.MemberRef{Member: member, Rec: fed}, s)
	}
	outside := []view.Storage{
		{Provider: "webdav.dcache", Endpoint: "dcache.example.org"}, {Provider: "minio.shared", Endpoint: "https://minio.example.org"},
		{Provider: "s3.eu", Endpoint: "https://s3.eu-west-1.amazonaws.com"}, {Provider: "s3.any", Endpoint: "https://s3.amazonaws.com"},
		{Provider: "onedata.o", Endpoint: "one.example.org"}, {Provider: "rucio.r", Endpoint: "https://rucio.example.org"}, {Provider: "webdav.lost"},
	}
	own := func(cluster string) []view.Storage {
		return append([]view.Storage{{Provider: "minio.default", ClusterID: cluster}}, outside...)
	}
	if diff := cmp.Diff(own("a"), at(0)) + cmp.Diff(own("b"), at(1)); diff != "" {
		t.Error(diff)
	}
	// OSCAR lets a definition say where minio.default is for a worker alone.
	s.StorageProviders.MinIO["default"] = oscar.MinIOProvider{Endpoint: "https://elsewhere.example.org", AccessKey: "k"}
	if diff := cmp.Diff(own("a"), at(0)) + cmp.Diff(append([]view.Storage{{Provider: "minio.default", Endpoint: "https://elsewhere.example.org"}}, outside...), at(1)); diff != "" {
		t.Error(diff)
	}
}
