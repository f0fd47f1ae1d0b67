package nodedriver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// If two NodeDrivers have one name, the first has the kinds, and the second reports that and gets them when the first
// is deleted.
func TestStory_TwoDriversOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		s.start()
		s.elapse(time.Minute)
		_, err := s.user.Management.NodeDriver().Create(&mgmtv3.NodeDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "again"},
			Spec:       mgmtv3.NodeDriverSpec{Active: true, DisplayName: "digitalocean", URL: "local://"},
		})
		must(t, err)
		s.elapse(time.Minute)
		installed := func() *rkev1.GenericCondition {
			driver, err := s.user.Management.NodeDriver().Get("again", metav1.GetOptions{})
			must(t, err)
			return conditions.Get(driver.Status.Conditions, mgmtv3.NodeDriverConditionInstalled)
		}
		if c := installed(); c == nil || c.Status != "False" ||
			!strings.Contains(c.Message, "NodeDriver digitalocean") {
			t.Errorf("the second driver has status %+v", c)
		}
		s.api.ResetLog()
		s.elapse(time.Hour)
		if writes := s.api.Writes(manager); len(writes) > 0 {
			t.Errorf("%d writes in an hour: %v", len(writes), writes[:min(len(writes), 5)])
		}
		must(t, s.user.Management.NodeDriver().Delete("digitalocean", nil))
		s.elapse(time.Hour)
		if c := installed(); c == nil || c.Status != "True" || len(s.kinds("digitalocean")) != 3 {
			t.Errorf("after the deletion of the first driver, the second has status %+v, and the kinds are %v", c,
				s.kinds("digitalocean"))
		}
		s.stop()
		s.user.Stop()
		s.elapse(time.Minute)
	})
}
