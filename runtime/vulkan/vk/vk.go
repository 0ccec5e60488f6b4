// Package vk calls Vulkan's loader without cgo: the part of the API that package vulkan needs, with the names of C less their prefix.
// Its structs have the layout of C on 64-bit machines, and are written by the program generate from the registry.
package vk

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Version is a version of Vulkan as the API has it.
func Version(major, minor, patch uint32) uint32 { return major<<22 | minor<<12 | patch }

// Result is a code that functions return. Negative ones are errors.
type Result int32

func (r Result) String() string {
	if name := resultNames[r]; name != "" {
		return name
	}
	return fmt.Sprintf("VkResult %d", int32(r))
}

// Text is a string as C has it.
func Text(s string) *byte { return &append([]byte(s), 0)[0] }

// Texts is a list of strings as C has it, nil if it is empty.
func Texts(list []string) **byte {
	var out []*byte
	for _, s := range list {
		out = append(out, Text(s))
	}
	return unsafe.SliceData(out)
}

// String is the string of C in an array, or at a pointer of at most MostText bytes.
func String(text []byte) string {
	for i, c := range text {
		if c == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

// MostText bounds texts that StringAt reads.
const MostText = 1 << 16

// StringAt is the string of C at an address, "" at nil.
func StringAt(text *byte) string {
	if text == nil {
		return ""
	}
	n := 0
	for n < MostText && *(*byte)(unsafe.Add(unsafe.Pointer(text), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(text, n))
}

// Library is the loader, open for the rest of the process.
type Library struct {
	LoaderCommands
	Path                string
	getInstanceProcAddr func(instance Instance, name *byte) uintptr
}

// Load opens the loader at a path. If path is empty, it is one of the names that the loader has on this system.
func Load(path string) (*Library, error) {
	names := libraryNames
	if path != "" {
		names = []string{path}
	}
	var first error
	for _, name := range names {
		l, err := open(name)
		if err == nil {
			return l, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func open(name string) (*Library, error) {
	l := &Library{Path: name}
	if err := openLibrary(name, "vkGetInstanceProcAddr", &l.getInstanceProcAddr); err != nil {
		return nil, err
	}
	l.Find(0, &l.LoaderCommands)
	if l.CreateInstance == nil {
		return nil, fmt.Errorf("%s is no loader of Vulkan: it has no vkCreateInstance", name)
	}
	return l, nil
}

// Find sets the functions of a struct, such as *InstanceCommands. A function that the instance lacks stays nil.
func (l *Library) Find(instance Instance, commands any) {
	find(commands, func(name string) uintptr { return l.getInstanceProcAddr(instance, Text(name)) })
}

// FindDevice sets the functions of a device. It returns the names of functions that the device lacks.
func (c *InstanceCommands) FindDevice(device Device, commands *DeviceCommands) (missing []string) {
	return find(commands, func(name string) uintptr { return c.GetDeviceProcAddr(device, Text(name)) })
}

func find(commands any, address func(name string) uintptr) (missing []string) {
	v := reflect.ValueOf(commands).Elem()
	for i := range v.NumField() {
		name := "vk" + v.Type().Field(i).Name
		if a := address(name); a != 0 {
			register(v.Field(i).Addr().Interface(), a)
		} else {
			missing = append(missing, name)
		}
	}
	return missing
}
