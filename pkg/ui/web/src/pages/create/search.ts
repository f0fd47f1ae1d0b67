/** What the URL of the page holds. */
export interface CreateSearch {
  /** The namespace with which the form begins. */
  namespace?: string;
}

export function readCreateSearch(search: Record<string, unknown>): CreateSearch {
  return { namespace: typeof search.namespace === 'string' && search.namespace ? search.namespace : undefined };
}
