// Package vulkan runs SPIR-V modules on GPUs, by the loader of Vulkan 1.3 and without cgo.
//
//	d, err := vulkan.Open(vulkan.Options{})                              // the device that TMACC_DEVICE names, or the preferred one
//	p, err := d.Pipeline(spirv, vulkan.Layout{Buffers: 2, PushBytes: 8}) // compiled, or found in the user's folder of files
//	x, err := d.Buffer(4000)                                             // memory of the device
//	err = x.Upload(0, data)
//	err = d.Run(p, [3]int{16, 1, 1}, []*vulkan.Buffer{x, y}, push)       // once, and waits
//	err = y.Download(0, result)
//
// What runs often is recorded once, as a [Sequence]: commands that each see what the commands before wrote.
//
//	s, err := d.Record([]vulkan.Command{&vulkan.Dispatch{...}, &vulkan.Copy{...}}, vulkan.RecordOptions{})
//	err = s.Run()
//
// Push constants and workgroups are recorded too. What changes with each run is in a HostBuffer, and workgroups in Dispatch.Indirect.
//
// Work happens in the order of calls, whatever overlaps: an upload is there for what starts later, and a download has what was started
// before. A matrix that is larger than what a shader sees at once is divided by Buffer.Split, and takes a dispatch for each range.
//
// Errors are an [*Unavailable] where there is no device, an [*OutOfMemory], an [*Invalid] of the validation layer, or have [ErrLost] in them.
// A lost device loses the call and its buffers: Close it and open it again.
//
// Programs that do not import this package link and load nothing of Vulkan. With it, a program for Linux is linked dynamically, with glibc,
// also where it is built without cgo. Windows and darwin (MoltenVK) are [Untested].
package vulkan
