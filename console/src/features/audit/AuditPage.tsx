/** The audit log of actions and refusals, with actor and reason. The filters are in the URL. */
import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { filters } from '../../api/cache/keys.ts';
import { auditQuery } from '../../api/queries/audit.ts';
import { IconFileSearch } from '../../ui/icons.generated.ts';
import { searchMark } from '../../ui/keyboard.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import toolbar from '../../ui/layout/Toolbar.module.css';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { AuditTable } from './AuditTable.tsx';
import { type AuditFilter, auditKinds } from './words.ts';

const route = getRouteApi('/frame/audit');

const fields: { name: keyof AuditFilter; label: string; placeholder: string }[] = [
  { name: 'actor', label: 'Who', placeholder: 'Who: a token or an IP address' },
  { name: 'action', label: 'What', placeholder: 'What: retire, pool-put …' },
  { name: 'target_id', label: 'To what', placeholder: 'To what: any id' },
  { name: 'code', label: 'Code', placeholder: 'Refused with code' },
];

export function AuditPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: AuditFilter) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: true, resetScroll: false });
  const { actor, action, target_id, code, kind } = search;
  const filter = filters({ actor, action, target_id, code, kind });
  const list = useInfiniteQuery(auditQuery(filter));
  const facts = list.data?.pages.flatMap((page) => page.items);
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <>
      <PageHeader
        title="Audit"
        tab="Audit"
        below={<span>Who did what and why, and what was refused. Newest first</span>}
      />
      <div className={toolbar.toolbar}>
        {fields.map(({ name, label, placeholder }, at) => (
          <FilterField
            key={name}
            label={label}
            placeholder={placeholder}
            value={search[name]}
            isSearch={at === 0}
            onChange={(value) => change({ [name]: value })}
          />
        ))}
        <SegmentedControl
          aria-label="Kind"
          data={auditKinds}
          value={auditKinds.some(({ value }) => value === kind) ? (kind ?? '') : ''}
          onChange={(value) => change({ kind: value || undefined })}
        />
      </div>
      {list.error && <FailurePanel error={list.error} />}
      <Panel flush>
        {!facts && !list.error && <TableSkeleton />}
        {facts?.length === 0 && (
          <Empty icon={IconFileSearch} title={isFiltered ? 'No record matches' : 'No actions yet'}>
            {isFiltered && (
              <Button variant="default" onClick={() => void navigate({ search: {}, replace: true })}>
                Show everything
              </Button>
            )}
          </Empty>
        )}
        {facts && facts.length > 0 && <AuditTable facts={facts} onFilter={change} />}
        <LoadMore list={list} />
      </Panel>
    </>
  );
}

interface FieldProps {
  label: string;
  placeholder: string;
  value: string | undefined;
  isSearch: boolean;
  onChange: (value: string | undefined) => void;
}

/** Wait until typing stops before filtering. */
const typingMs = 300;

function FilterField({ label, placeholder, value, isSearch, onChange }: FieldProps) {
  const [typed, setTyped] = useState(value ?? '');
  // A link or the back button may change the URL without typing.
  useEffect(() => setTyped(value ?? ''), [value]);
  const applyFilter = useDebouncedCallback((next: string) => onChange(next.trim() || undefined), typingMs);
  return (
    <TextInput
      {...(isSearch ? searchMark : {})}
      type="search"
      aria-label={label}
      placeholder={placeholder}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        applyFilter(event.currentTarget.value);
      }}
      w={210}
    />
  );
}
