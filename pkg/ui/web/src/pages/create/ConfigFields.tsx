import { ActionIcon, Button, NativeSelect, TextInput } from '@mantine/core';
import { useMemo, useState } from 'react';
import { chevron, Icon } from '../../components/Icon';
import { fieldsOf, firstFields, type Field, type FieldErrors } from './form';
import type { Driver } from './types';

type Config = Record<string, string[]>;

interface Props {
  driver: Driver | undefined;
  /** The path of the machine config in the request. */
  path: string;
  config: Config;
  errors: FieldErrors;
  onChange: (config: Config) => void;
}

/** The fields of a machine config. Drivers have up to a hundred, so most are behind a button. */
export function ConfigFields(props: Props) {
  const { driver, path, config, errors, onChange } = props;
  const fields = useMemo(() => fieldsOf(driver), [driver]);
  // A field that is cleared stays where it is.
  const [kept, setKept] = useState<ReadonlySet<string>>(() => new Set(Object.keys(config)));
  const [all, setAll] = useState(false);
  const [filter, setFilter] = useState('');
  if (!driver?.schema) return <FreeFields {...props} />;
  const { first, rest } = firstFields(fields, kept, (name) => `${path}.${name}` in errors);
  const words = filter.trim().toLowerCase();
  const matching = rest.filter(({ name, label, description }) =>
    `${name} ${label} ${description}`.toLowerCase().includes(words),
  );
  const inputs = (list: readonly Field[]) => (
    <div className="config-fields">
      {list.map((field) => (
        <ConfigField
          key={field.name}
          field={field}
          name={`${path}.${field.name}`}
          value={config[field.name] ?? []}
          error={errors[`${path}.${field.name}`]}
          onChange={(value) => onChange({ ...config, [field.name]: value })}
        />
      ))}
    </div>
  );
  const hide = () => {
    const set = Object.entries(config).filter(([, values]) => values.some(Boolean));
    setKept(new Set(set.map(([name]) => name)));
    setAll(false);
    setFilter('');
  };
  return (
    <>
      {first.length > 0 && inputs(first)}
      {rest.length > 0 && (
        <button
          type="button"
          className="disclosure more-fields"
          aria-expanded={all}
          onClick={() => (all ? hide() : setAll(true))}
        >
          <Icon name="right" size={12} />
          {first.length ? `${rest.length} more fields` : `${rest.length} fields`} of{' '}
          {driver.displayName || driver.name}
        </button>
      )}
      {all && rest.length > 0 && (
        <>
          {rest.length > shortList && (
            <TextInput
              type="search"
              aria-label="Search the fields"
              placeholder="Search the fields"
              value={filter}
              onChange={(e) => setFilter(e.currentTarget.value)}
              leftSection={<Icon name="search" />}
              spellCheck={false}
            />
          )}
          {matching.length ? inputs(matching) : <p className="dim">No field matches.</p>}
        </>
      )}
    </>
  );
}

/** Up to this number of fields needs no search. */
const shortList = 12;

interface FieldProps {
  field: Field;
  name: string;
  value: string[];
  error?: string;
  onChange: (value: string[]) => void;
}

function ConfigField({ field, name, value, error, onChange }: FieldProps) {
  const { kind, initial } = field;
  const common = {
    name,
    error,
    label: field.label,
    description: field.description,
    required: field.required && initial === '',
  };
  if (kind === 'object')
    return (
      <p className="dim">
        <b>{field.label}</b>: edit the YAML to set this field.
      </p>
    );
  if (kind === 'boolean' || kind === 'choice') {
    const values = kind === 'choice' ? field.choices : ['true', 'false'];
    const words: Record<string, string> = { true: 'Yes', false: 'No' };
    const label = (text: string) => (kind === 'boolean' ? (words[text] ?? text) : text);
    return (
      <NativeSelect
        {...common}
        rightSection={chevron}
        data={[
          { value: '', label: initial ? `Default: ${label(initial)}` : 'Not set' },
          ...values.map((text) => ({ value: text, label: label(text) })),
        ]}
        value={value[0] ?? ''}
        onChange={(e) => onChange([e.currentTarget.value])}
      />
    );
  }
  if (kind === 'list') return <ListField {...{ field, name, value, error, onChange }} />;
  return (
    <TextInput
      {...common}
      inputMode={kind === 'number' ? 'numeric' : undefined}
      placeholder={initial && `Default: ${initial}`}
      value={value[0] ?? ''}
      onChange={(e) => onChange([e.currentTarget.value])}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

/** A list: a field for each value. */
function ListField({ field, name, value, error, onChange }: FieldProps) {
  const shown = value.length ? value : [''];
  return (
    <div className="list-field" role="group" aria-label={field.label}>
      {shown.map((text, i) => (
        <div className="list-row" key={i}>
          <TextInput
            name={name}
            label={i === 0 ? field.label : undefined}
            aria-label={i > 0 ? `${field.label}, value ${i + 1}` : undefined}
            description={i === 0 ? field.description : undefined}
            placeholder={i === 0 && field.initial ? `Default: ${field.initial}` : ''}
            error={i === 0 ? error : undefined}
            value={text}
            onChange={(e) => onChange(shown.map((old, at) => (at === i ? e.currentTarget.value : old)))}
            autoComplete="off"
            spellCheck={false}
          />
          {shown.length > 1 && (
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Remove value ${i + 1} of ${field.label}`}
              onClick={() => onChange(shown.filter((_, at) => at !== i))}
            >
              <Icon name="cross" size={14} />
            </ActionIcon>
          )}
        </div>
      ))}
      <Button
        size="compact-sm"
        variant="default"
        aria-label={`Add a value of ${field.label}`}
        onClick={() => onChange([...shown, ''])}
      >
        Add a value
      </Button>
    </div>
  );
}

/** The machine config of a driver without a schema: the user types the names of the fields. */
function FreeFields({ config, path, errors, onChange }: Props) {
  const [rows, setRows] = useState<[string, string][]>(() =>
    Object.entries(config).flatMap(([name, values]) => values.map((value): [string, string] => [name, value])),
  );
  const change = (next: [string, string][]) => {
    setRows(next);
    const made: Config = {};
    for (const [name, value] of next) if (name.trim()) (made[name.trim()] ??= []).push(value);
    onChange(made);
  };
  return (
    <div className="free-fields">
      <p className="dim">Drover does not know the fields of this driver. Type the names and values that it needs.</p>
      {rows.map(([name, value], i) => (
        <div className="free-row" key={i}>
          <TextInput
            aria-label={`Name of field ${i + 1}`}
            placeholder="Field"
            value={name}
            onChange={(e) => change(rows.map((row, at) => (at === i ? [e.currentTarget.value, row[1]] : row)))}
            spellCheck={false}
          />
          <TextInput
            aria-label={`Value of field ${i + 1}`}
            placeholder="Value"
            value={value}
            error={errors[`${path}.${name.trim()}`]}
            onChange={(e) => change(rows.map((row, at) => (at === i ? [row[0], e.currentTarget.value] : row)))}
            spellCheck={false}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove field ${i + 1}`}
            onClick={() => change(rows.filter((_, at) => at !== i))}
          >
            <Icon name="cross" size={14} />
          </ActionIcon>
        </div>
      ))}
      <Button size="compact-sm" variant="default" onClick={() => change([...rows, ['', '']])}>
        Add a field
      </Button>
    </div>
  );
}
