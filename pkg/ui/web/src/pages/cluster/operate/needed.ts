/** What a text needs from the server: an answer, an error, or neither yet. */
interface Answer<T> {
  data?: T;
  error?: unknown;
}

/** Gives the answer that a text needs. Without it, an Error says why there is no text. */
export function needed<T>({ data, error }: Answer<T>, reading: string): T {
  if (data !== undefined) return data;
  throw new Error(error ? 'Nothing can be previewed without the answer of the server.' : reading);
}

interface Look {
  /** What the user typed to confirm, and what it must be. */
  typed: string;
  name: string;
  isFetching: boolean;
  /** The last look at the cluster failed. */
  lookError?: unknown;
  /** The last deletion failed, and the user has not looked since. */
  deletionError?: unknown;
}

/** Reports whether the user has confirmed what the dialog shows, and the dialog shows the cluster as it is. */
export const isConfirmed = ({ typed, name, isFetching, lookError, deletionError }: Look) =>
  typed === name && !isFetching && !lookError && deletionError === undefined;
