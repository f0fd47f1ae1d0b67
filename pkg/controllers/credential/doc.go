// Package credential gives the creator of a cloud credential permission to use it. The creator may be a user without
// other permissions on Secrets.
//
//	Secret (cloud credential, with annotation field.cattle.io/creatorId)
//	   ├─► Role CREATOR-SECRET: get, update and delete this Secret; owned by the Secret
//	   ├─► RoleBinding of the same name: the creator has the Role; owned by the Secret
//	   └── the annotation is removed, last
//
// Admission writes the annotation, or verifies it: it is the user who creates the Secret, and it cannot be added or
// changed later. The permissions are on the Secret alone that has the annotation. So an author of a forged annotation,
// while admission is off, shares only a Secret whose content that author knows and can change.
//
// Drover never changes a Role or RoleBinding of that name that belongs to others. It then uses a name with a part of
// the Secret's UID. Deleting the RoleBinding revokes the permissions: nothing creates it again, because the annotation
// is gone. While another manager runs here, Drover waits.
//
// # Wake-ups
//
// Object: Secret (cloud credential). Nothing else wakes it.
package credential
