import { ActionIcon, Button, NativeSelect, PasswordInput, TextInput } from '@mantine/core';
import { chevron, Icon } from '../components/Icon';
import type { CredentialField } from '../pages/create/types';
import type { Entry } from './credential';

interface Props {
  field: CredentialField;
  label: string;
  value: string;
  error?: string;
  onChange: (value: string) => void;
}

/** A value of a credential. Browsers neither fill nor store it. */
export function SecretInput({ field, label, value, error, onChange }: Props) {
  const common = {
    label,
    description: field.description,
    value,
    error,
    required: field.required,
    spellCheck: false,
    onChange: (event: { currentTarget: HTMLInputElement }) => onChange(event.currentTarget.value),
  };
  if (field.options?.length)
    return (
      <NativeSelect
        label={label}
        description={field.description}
        error={error}
        required={field.required}
        rightSection={chevron}
        data={[{ value: '', label: field.default ? `Default: ${field.default}` : 'Not set' }, ...field.options]}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    );
  if (!field.secret) return <TextInput {...common} placeholder={field.default} autoComplete="off" />;
  return (
    <PasswordInput
      {...common}
      autoComplete="new-password"
      visibilityToggleButtonProps={{ 'aria-label': `Show ${label}` }}
    />
  );
}

/** Values of a driver whose fields are unknown: the user types their names. */
export function KeyValueEntries({ entries, onChange }: { entries: Entry[]; onChange: (entries: Entry[]) => void }) {
  const shown = entries.length ? entries : [{ key: '', value: '' }];
  const set = (at: number, change: Partial<Entry>) =>
    onChange(shown.map((entry, i) => (i === at ? { ...entry, ...change } : entry)));
  return (
    <fieldset className="entries">
      <legend>Values</legend>
      <p className="dim">Drover does not know the fields of this driver. Type their names, such as accessKey.</p>
      {shown.map((entry, i) => (
        <div className="entry" key={i}>
          <TextInput
            aria-label={`Name of value ${i + 1}`}
            placeholder="Name"
            value={entry.key}
            onChange={(e) => set(i, { key: e.currentTarget.value })}
            autoComplete="off"
            spellCheck={false}
          />
          <PasswordInput
            aria-label={`Value ${i + 1}`}
            placeholder="Value"
            value={entry.value}
            onChange={(e) => set(i, { value: e.currentTarget.value })}
            autoComplete="new-password"
            visibilityToggleButtonProps={{ 'aria-label': `Show value ${i + 1}` }}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove value ${i + 1}`}
            title="Remove"
            disabled={shown.length === 1}
            onClick={() => onChange(shown.filter((_, at) => at !== i))}
          >
            <Icon name="cross" />
          </ActionIcon>
        </div>
      ))}
      <Button size="compact-sm" variant="default" onClick={() => onChange([...shown, { key: '', value: '' }])}>
        Add a value
      </Button>
    </fieldset>
  );
}
