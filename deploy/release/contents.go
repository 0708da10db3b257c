package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

const (
	noAssertion = "NOASSERTION"
	document    = "DOCUMENT"
	ourModule   = "github.com/oscarfed/oscarfed"
	ourLicense  = "Apache-2.0"
)

// notInID are the characters that SPDX does not allow in an identifier.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// contents writes the list of contents of an archive: the Go modules that its programs were linked from,
// as the programs themselves say.
func (r *release) contents(name string, programs []string) (err error) {
	modules := map[string]string{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		modules["stdlib"] = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m.Version
		}
	}
	ours := packageOf(ourModule, r.version, ourLicense)
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: document, DocumentName: name,
		DocumentNamespace: "https://" + ourModule + "/spdx/" + name + "-" + r.commit,
		CreationInfo: &spdx.CreationInfo{
			Created: r.when.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: ourModule + "/deploy/release"}},
		},
		Packages:      []*spdx.Package{ours},
		Relationships: []*spdx.Relationship{relation(document, common.TypeRelationshipDescribe, ours.PackageSPDXIdentifier)},
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		p := packageOf(path, modules[path], noAssertion)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relation(ours.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p.PackageSPDXIdentifier))
	}
	file, err := os.Create(filepath.Join(r.out, name+".spdx.json"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return spdxjson.Write(doc, file, spdxjson.Indent("  "))
}

func relation(from common.ElementID, how string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: how, RefB: common.DocElementID{ElementRefID: to},
	}
}

func packageOf(module, version, license string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID("Package-" + notInID.ReplaceAllString(module, "-")),
		PackageName:           module, PackageVersion: version, PackageDownloadLocation: noAssertion, PackageLicenseDeclared: license,
		IsFilesAnalyzedTagPresent: true,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + module + "@" + version,
		}},
	}
}
