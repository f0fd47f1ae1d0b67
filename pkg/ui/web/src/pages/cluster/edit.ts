import type { Manifest } from '../../change/api';

/** An edit that has not been written. It stays when the Cluster changes. */
export interface Edit {
  text: string;
  /** The manifest that the user has begun with. */
  base: Manifest;
  /** The version of the cluster for which the user has kept the text. */
  kept?: string;
}

/** The edit after typing. The text with which the user has begun is no edit. */
export function typeText(edit: Edit | undefined, live: Manifest, text: string): Edit | undefined {
  const base = edit?.base ?? live;
  return text === base.text ? undefined : { ...edit, base, text };
}

/** Keeps the newest text for another version of the cluster: the user can type on while the page reads it. */
export function keepText(edit: Edit | undefined, base: Manifest, kept?: string): Edit | undefined {
  return edit && { ...edit, base, kept };
}

/** The edit after a write: what the user has typed since is an edit of what was written. */
export function followWrite(edit: Edit | undefined, base: Manifest, written: string): Edit | undefined {
  return edit && edit.text !== written ? { text: edit.text, base } : undefined;
}
