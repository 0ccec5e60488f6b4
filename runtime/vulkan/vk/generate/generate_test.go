package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

const debian = "/usr/share/vulkan/registry/vk.xml"

// TestCurrent: registry.go is what the registry of its version gives.
func TestCurrent(t *testing.T) {
	registry, err := os.ReadFile(debian)
	if err != nil {
		t.Skip("needs libvulkan-dev: ", err)
	}
	got, err := Source(registry)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../registry.go")
	if err != nil {
		t.Fatal(err)
	}
	firstLine := func(text []byte) string { line, _, _ := strings.Cut(string(text), "\n"); return line }
	if firstLine(got) != firstLine(want) {
		t.Skipf("%s is of another version than ../registry.go: %s", debian, firstLine(got))
	}
	if !bytes.Equal(got, want) {
		t.Error("../registry.go is not current: go run ./runtime/vulkan/vk/generate " + debian + " >runtime/vulkan/vk/registry.go")
	}
}

// small has one of each thing that the program reads.
const small = `<registry>
<types>
 <type category="define">#define <name>VK_HEADER_VERSION</name> 7</type>
 <type category="bitmask">typedef <type>VkFlags64</type> <name>VkWide</name>;</type>
 <type category="basetype">typedef <type>uint64_t</type> <name>VkFlags64</name>;</type>
 <type category="handle"><type>VK_DEFINE_HANDLE</type>(<name>VkDevice</name>)</type>
 <type category="struct" name="VkPart"><member values="VK_STRUCTURE_TYPE_PART"><type>VkStructureType</type> <name>sType</name></member>
  <member>const <type>void</type>* <name>pNext</name><comment>a * of a comment</comment></member>
  <member><type>VkWide</type> <name>wide</name></member>
  <member><type>char</type> <name>text</name>[<enum>VK_LENGTH</enum>]</member>
  <member>const <type>char</type>* const* <name>ppTexts</name></member>
  <member>const <type>VkOther</type>* <name>pOther</name></member></type>
 <type category="enum" name="VkStructureType"/>
</types>
<enums name="API Constants"><enum value="5" name="VK_LENGTH"/></enums>
<enums name="VkBits"><enum bitpos="33" name="VK_BIT"/></enums>
<commands><command><proto><type>void</type> <name>vkCall</name></proto><param><type>VkDevice</type> <name>device</name></param></command></commands>
<feature><require><enum offset="4" extends="VkStructureType" extnumber="315" name="VK_STRUCTURE_TYPE_PART"/></require></feature>
<extensions><extension number="2"><require><enum offset="1" dir="-" extends="VkResult" name="VK_ERROR_NEW"/></require></extension></extensions>
</registry>`

func TestParse(t *testing.T) {
	r, err := parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"VK_LENGTH": 5, "VK_BIT": 1 << 33, "VK_STRUCTURE_TYPE_PART": 1000314004, "VK_ERROR_NEW": -1000001001} {
		if r.values[name] != want {
			t.Errorf("%s is %d, want %d", name, r.values[name], want)
		}
	}
	if r.version != "7" {
		t.Errorf("version %q", r.version)
	}
	w := &writer{registry: r}
	var got []string
	for _, m := range r.structs["VkPart"] {
		got = append(got, m.name+" "+w.typeOf(m))
	}
	want := "sType uint32, pNext unsafe.Pointer, wide uint64, text [5]byte, ppTexts **byte, pOther unsafe.Pointer"
	if strings.Join(got, ", ") != want || w.err != nil {
		t.Errorf("%s, want %s, %v", strings.Join(got, ", "), want, w.err)
	}
}

// TestLacks: a registry that lacks something is refused by its name.
func TestLacks(t *testing.T) {
	for text, want := range map[string]string{small: "no handle VkInstance", "<registry>": "XML syntax error"} {
		if _, err := Source([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
