package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// registry is what vk.xml says, by the names of C.
type registry struct {
	structs  map[string][]member
	commands map[string][]member // the first member has the result's type
	kinds    map[string]string   // of types: category, or for handles the macro that declares them
	base     map[string]string   // the type behind a typedef, such as VkFlags64
	values   map[string]int64
	results  []string // names of VkResult in the registry's order, without extensions
	version  string
}

// member is a field or a parameter.
type member struct {
	name, kind string
	pointers   int
	length     string // of an array, a number or the name of a constant
	value      string // of sType
}

// element is any element of the file with what this program reads of it.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Inner    string     `xml:",innerxml"`
	Children []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (e element) child(name string) string {
	for _, c := range e.Children {
		if c.XMLName.Local == name {
			return strings.TrimSpace(c.Inner)
		}
	}
	return ""
}

func parse(text []byte) (*registry, error) {
	var root element
	if err := xml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	r := &registry{map[string][]member{}, map[string][]member{}, map[string]string{}, map[string]string{}, map[string]int64{}, nil, ""}
	for _, section := range root.Children {
		switch section.XMLName.Local {
		case "types":
			r.types(section)
		case "commands":
			r.readCommands(section)
		case "enums":
			r.enums(section, "")
			if section.attr("name") == "VkResult" {
				r.results = namesOf(section)
			}
		case "feature":
			r.required(section, section.attr("number"))
		case "extensions":
			for _, e := range section.Children {
				r.required(e, e.attr("number"))
			}
		}
	}
	return r, nil
}

func (r *registry) types(section element) {
	for _, e := range section.Children {
		name := cmp.Or(e.attr("name"), e.child("name"))
		for _, c := range e.Children {
			name = cmp.Or(name, c.child("name")) // of function pointers, in newer registries
		}
		if name == "VK_HEADER_VERSION" && r.version == "" {
			_, version, _ := strings.Cut(e.Inner, "</name>")
			r.version = strings.TrimSpace(version)
		}
		switch category := e.attr("category"); category {
		case "handle":
			r.kinds[name] = e.child("type")
		case "bitmask", "basetype":
			r.kinds[name], r.base[name] = category, e.child("type")
		case "struct":
			for _, m := range e.Children {
				if m.XMLName.Local == "member" && m.attr("api") != "vulkansc" {
					r.structs[name] = append(r.structs[name], memberOf(m))
				}
			}
			fallthrough
		default:
			r.kinds[name] = category
		}
	}
}

var (
	comment = regexp.MustCompile(`<comment>.*?</comment>`)
	length  = regexp.MustCompile(`\[(\w+)\]`)
	tag     = regexp.MustCompile(`<[^>]*>`)
)

func memberOf(e element) member {
	m := member{name: e.child("name"), kind: e.child("type"), value: e.attr("values")}
	plain := tag.ReplaceAllString(comment.ReplaceAllString(e.Inner, ""), "")
	m.pointers = strings.Count(plain, "*")
	if l := length.FindStringSubmatch(plain); l != nil {
		m.length = l[1]
	}
	return m
}

func (r *registry) readCommands(section element) {
	for _, e := range section.Children {
		var all []member
		for _, c := range e.Children {
			if c.XMLName.Local == "proto" || c.XMLName.Local == "param" && c.attr("api") != "vulkansc" {
				all = append(all, memberOf(c))
			}
		}
		if len(all) > 0 {
			r.commands[all[0].name] = all
		}
	}
}

// required reads the constants that a version or an extension adds.
func (r *registry) required(e element, number string) {
	for _, c := range e.Children {
		if c.XMLName.Local == "require" {
			r.enums(c, number)
		}
	}
}

// enums reads constants. Numbers of extensions follow from the extension's number.
func (r *registry) enums(e element, extension string) {
	for _, c := range e.Children {
		if value, ok := valueOf(c, extension); ok && c.XMLName.Local == "enum" {
			r.values[c.attr("name")] = value
		}
	}
}

func namesOf(e element) (names []string) {
	for _, c := range e.Children {
		if c.XMLName.Local == "enum" {
			names = append(names, c.attr("name"))
		}
	}
	return names
}

func valueOf(c element, extension string) (int64, bool) {
	if n := c.attr("extnumber"); n != "" {
		extension = n
	}
	if bit, err := strconv.Atoi(c.attr("bitpos")); err == nil {
		return 1 << bit, true
	}
	if value, err := strconv.ParseInt(c.attr("value"), 0, 64); err == nil {
		return value, true
	}
	offset, err := strconv.ParseInt(c.attr("offset"), 10, 64)
	number, bad := strconv.ParseInt(extension, 10, 64)
	value := 1000000000 + (number-1)*1000 + offset
	if c.attr("dir") == "-" {
		value = -value
	}
	return value, err == nil && bad == nil
}
