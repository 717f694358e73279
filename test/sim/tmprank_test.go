package sim
import ("testing";"os";"strconv")
func TestTmpRanked(t *testing.T){
 n,_:=strconv.Atoi(os.Getenv("N")); f,_:=strconv.Atoi(os.Getenv("F")); bad:=0
 inj:=map[string]int{}
 for s:=f;s<f+n;s++ { r:=SimulateDualWrites(uint64(s),DualOptions{Ranked:true,Trace:os.Getenv("TR")!=""}); for k,v:=range r.Injected{inj[k]+=v}
  if os.Getenv("TR")!="" { os.WriteFile("/tmp/trace.txt",[]byte(r.Trace),0644)}
  if len(r.Failures)>0 {bad++; t.Logf("seed %d moving: %v",s,r.Failures[0])} }
 t.Logf("%d bad of %d %v",bad,n,inj)
}
