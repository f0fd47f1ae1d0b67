import { useMemo, useRef, useState } from 'react';
import { useClusters } from '../../live/hooks';
import { useAccess } from '../../api/queries';
import { useSettled } from '../../lib/settled';
import { useDrivers, useManifest } from './api';
import { checkForm, placeProblems, toRequest, visibleErrors, type FormValues } from './form';
import { targetOf } from './manifest';

/** The state of the page: the form, the manifest that it makes, and the text of a user who edits by hand. */
export function useCreateForm(initial: () => FormValues) {
  const [begun, setBegun] = useState<FormValues>(initial);
  const [form, setForm] = useState(begun);
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [attempted, setAttempted] = useState(false);
  const [hand, setHand] = useState<string>();
  const clusters = useClusters();
  const drivers = useDrivers();
  const access = useAccess(useSettled(form.namespace.trim()));
  const made = useManifest(
    useMemo(() => toRequest(form), [form]),
    hand === undefined,
  );
  // A form with problems can have no manifest. The last one stays visible.
  const last = useRef('');
  if (made.data?.manifest) last.current = made.data.manifest;

  const driver = drivers.data?.items?.find(({ name }) => name === form.driver);
  const taken = useMemo(() => new Set(clusters.map((c) => `${c.namespace}/${c.name}`)), [clusters]);
  const placed = useMemo(() => placeProblems((made.current && made.data?.problems) || []), [made.current, made.data]);
  const errors = { ...placed.errors, ...checkForm(form, driver, taken) };
  if (access.data && access.data.clusters !== 'edit')
    errors.namespace ??= `You may not create clusters in namespace ${form.namespace.trim()}.`;
  const isByHand = hand !== undefined;
  return {
    isUnsaved: isByHand || form !== begun,
    form,
    /** Fills in what the user has not touched. */
    begin: (change: Partial<FormValues>) => {
      const next = { ...form, ...change };
      if (form === begun) setBegun(next);
      setForm(next);
    },
    set: (change: Partial<FormValues>) => setForm((old) => ({ ...old, ...change })),
    driver,
    drivers,
    made,
    errors,
    /** Problems without a field of the form. */
    others: attempted ? placed.others : [],
    shown: visibleErrors(errors, touched, attempted),
    touch: (field: string) => setTouched((old) => (old.has(field) ? old : new Set(old).add(field))),
    attempt: () => setAttempted(true),
    isByHand,
    edit: setHand,
    /** The form writes the text again. */
    useForm: () => setHand(undefined),
    text: hand ?? last.current,
    /** True if the text is the one of the form as it is now. */
    isCurrent: isByHand || made.current,
    target: (isByHand && targetOf(hand)) || { namespace: form.namespace.trim(), name: form.name.trim() },
  };
}

export type CreateForm = ReturnType<typeof useCreateForm>;
