import { ActionIcon, TextInput } from '@mantine/core';
import { CheckGroup } from '../../components/CheckGroup';
import { Icon } from '../../components/Icon';
import { ConfigFields } from './ConfigFields';
import { roles, type FieldErrors, type PoolValues } from './form';
import type { Driver, Role } from './types';

interface Props {
  pool: PoolValues;
  /** The path of the pool in the request. */
  path: string;
  driver: Driver | undefined;
  errors: FieldErrors;
  onChange: (pool: PoolValues) => void;
  /** Undefined for the only pool. */
  onRemove?: () => void;
}

export function PoolCard({ pool, path, driver, errors, onChange, onRemove }: Props) {
  const set = (change: Partial<PoolValues>) => onChange({ ...pool, ...change });
  return (
    <fieldset className="pool-card">
      <legend className="visually-hidden">Pool {pool.name}</legend>
      <div className="pool-row">
        <TextInput
          label="Name of the pool"
          name={`${path}.name`}
          value={pool.name}
          error={errors[`${path}.name`]}
          onChange={(e) => set({ name: e.currentTarget.value })}
          autoComplete="off"
          spellCheck={false}
        />
        <TextInput
          label="Machines"
          name={`${path}.size`}
          inputMode="numeric"
          value={pool.size}
          error={errors[`${path}.size`]}
          onChange={(e) => set({ size: e.currentTarget.value.trim() })}
          autoComplete="off"
        />
        <CheckGroup
          label="Roles"
          name={`${path}.roles`}
          choices={roles}
          value={pool.roles}
          error={errors[`${path}.roles`]}
          onChange={(chosen) => set({ roles: chosen as Role[] })}
        />
        {onRemove && (
          <ActionIcon
            className="pool-remove"
            variant="subtle"
            color="gray"
            aria-label={`Remove pool ${pool.name}`}
            title="Remove the pool"
            onClick={onRemove}
          >
            <Icon name="cross" />
          </ActionIcon>
        )}
      </div>
      <ConfigFields
        driver={driver}
        path={`${path}.config`}
        config={pool.config}
        errors={errors}
        onChange={(config) => set({ config })}
      />
    </fieldset>
  );
}
