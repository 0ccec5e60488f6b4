package live
import ("testing";"math/rand";"fmt";"time";"os";"github.com/tmacc/tmacc/gen";"github.com/tmacc/tmacc/ir";"github.com/tmacc/tmacc/ir/format";"github.com/tmacc/tmacc/lower";"github.com/tmacc/tmacc/lower/amd64";"github.com/tmacc/tmacc/schedule";"github.com/tmacc/tmacc/search")
func TestZZ(t *testing.T){
 target:=amd64.ByName("avx512vbmi")
 rng:=rand.New(rand.NewSource(7))
 end:=time.Now().Add(150*time.Second)
 n,bad,ref,low:=0,0,0,0
 T3:=format.Weight{Bits:2,Levels:[]int{-1,0,1},Per:format.PerGroup,Scale:format.F16}
 mk:=func(g,sup int,min,zero bool)format.Weight{w:=T3;w.Name=fmt.Sprintf("zz-g%d-s%d",g,sup);w.Group=g;w.Super=sup;w.Min=min;w.Zero=zero; if sup>0{w.Scale=format.I8; if min {w.Scale=format.U8}}; if err:=w.Validate();err!=nil{t.Log(w.Name,min,zero,err);w.Name=""};return w}
 var ps []ir.Problem
 for _,c:=range []struct{g,s,a int;m,z bool}{{256,0,0,false,false},{256,0,32,false,false},{256,0,512,false,false},{256,0,1280,true,false},{48,0,96,false,true},{32,128,0,false,false},{32,128,32,true,false},{64,256,128,true,false},{64,256,512,false,true},{48,0,16,true,true},{128,0,64,false,false},{16,64,16,false,false}}{
  w:=mk(c.g,c.s,c.m,c.z); if w.Name==""{continue}
  p:=ir.Problem{Weight:w,Act:format.Act{Group:c.a}}
  if err:=p.Validate();err!=nil{t.Log(w.Name,c.a,err);continue}
  ps=append(ps,p)
 }
 for _,x:=range []int{48,112}{ w:=T3; w.Per=format.PerRow; w.Scale=format.F32; w.Name="zzrow"; ps=append(ps,ir.Problem{Weight:w,Act:format.Act{Group:x}}) }
 seen:=map[string]int{}
 for time.Now().Before(end){
  p:=ps[rng.Intn(len(ps))]
  c:=search.Sample(rng,p,target.Machine())
  if c.Table!=nil {continue}
  if c.Fill==0 { if rng.Intn(4)>0 {continue}; g:=p.GroupK(); c.Fill=g+4*(1+rng.Intn(g/4)) }
  tr:=c.Trace(p)
  k,err:=schedule.Compile(p,tr)
  if err!=nil{ref++; seen["R "+fmt.Sprint(err)[:min(60,len(fmt.Sprint(err)))]]++;continue}
  code,err:=lower.Build(target,k.Nest,"k0")
  if err!=nil{low++;continue}
  v:=gen.Target{Target:target,Need:amd64.FeatureNames(target.Machine().Has)}
  v.Kernels=append(v.Kernels,gen.Kernel{Schedule:k,Code:code})
  if rng.Intn(4)>0 {
  pt,err:=search.DefaultPrepare(p,v.Tables(),v.TableChunk(),target)
  if err!=nil{t.Fatal(err)}
  pk,err:=schedule.CompilePrepare(p,v.Tables(),pt)
  if err!=nil{t.Fatal(err)}
  pc,err:=lower.Build(target,pk.Nest,"prepare")
  if err!=nil{t.Fatal(err)}
  v.Prepare=&gen.Prepare{Schedule:pk,Code:pc}
  }
  s:=Spec(p,v); if err:=s.Validate();err!=nil{ t.Errorf("validate %v: %v",tr,err);bad++;continue}
  if err:=func()error{a,err:=Assemble(p,v); if err==nil{a.Close()};return err}();err!=nil{bad++; t.Errorf("%s act %d fill %d: %.900v",p.Weight.Name,p.Act.Group,c.Fill,err)}
  n++; seen[fmt.Sprint("ok ",p.Weight.Name," a",p.Act.Group)]++
  if bad>5{break}
 }
 t.Log(n,bad,ref,low); for k,v:=range seen{fmt.Fprintln(os.Stderr,v,k)}
}
