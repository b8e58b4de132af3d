/**
 * Shows the log of one or every instance of a node, even after the machine is gone. Scrolls to new
 * lines unless you have scrolled up.
 */
import { Button, Group, Select, Switch, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useLayoutEffect, useRef, useState } from 'react';
import type { Node } from '../../../../../src/contract/node.ts';
import { useLog } from '../../../api/queries/logs.ts';
import { IconArrowDown, IconFileText, IconSearch } from '../../../ui/icons.generated.ts';
import { searchMark } from '../../../ui/keyboard.ts';
import { shortId } from '../../../ui/layout/CopyId.tsx';
import { Empty } from '../../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../../ui/layout/FailurePanel.tsx';
import { LeftOnMachine } from './LeftOnMachine.tsx';
import { LogRow } from './LogRow.tsx';
import styles from './Logs.module.css';

interface Props {
  node: Node;
  instance: string | undefined;
  q: string | undefined;
  onChange: (change: { instance?: string; q?: string }) => void;
}

const nearEndPx = 40;

export function Logs({ node, instance, q, onChange }: Props) {
  const [follow, setFollow] = useState(node.status !== 'retired');
  const [atEnd, setAtEnd] = useState(true);
  const { lines, loaded, searching, error } = useLog({ node_id: node.node_id, instance, q, follow });
  const box = useRef<HTMLDivElement>(null);
  const search = useDebouncedCallback((value: string) => onChange({ instance, q: value || undefined }), 300);

  const scrollToEnd = () => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines must trigger the scroll
  useLayoutEffect(() => {
    if (follow && atEnd) scrollToEnd();
  }, [lines, follow, atEnd]);

  const instances = [...new Set([node.node_instance_id, ...lines.map((line) => line.node_instance_id), instance])]
    .filter((id) => typeof id === 'string')
    .map((id) => ({ value: id, label: id === node.node_instance_id ? `${shortId(id)} (current)` : shortId(id) }));

  return (
    <div>
      <Group className={styles.tools} gap="sm">
        <TextInput
          {...searchMark}
          size="xs"
          placeholder="Search the log"
          aria-label="Search the log"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={q}
          onChange={(event) => search(event.currentTarget.value)}
          className={styles.search}
        />
        <Select
          size="xs"
          aria-label="Instance"
          placeholder="Every instance"
          data={instances}
          value={instance ?? null}
          onChange={(value) => onChange({ q, instance: value ?? undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Every instance' }}
        />
        <Switch
          size="sm"
          label="Follow"
          checked={follow}
          onChange={(event) => {
            setFollow(event.currentTarget.checked);
            setAtEnd(true);
          }}
        />
      </Group>
      {error !== null && <FailurePanel error={error} />}
      {loaded && lines.length === 0 && !q && <LeftOnMachine node={node} />}
      {searching && (
        <p role="status" className={styles.searching}>
          Searching older lines…
        </p>
      )}
      {loaded && !searching && lines.length === 0 && q && (
        <Empty icon={IconFileText} title="No line matches">
          <p>Try other words, or every instance.</p>
        </Empty>
      )}
      {(!loaded || lines.length > 0) && (
        <div className={styles.frame}>
          <div
            ref={box}
            className={styles.box}
            role="log"
            aria-label={`Log of ${node.name}`}
            aria-busy={!loaded}
            aria-live="off"
            // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must reach the log
            tabIndex={0}
            onScroll={({ currentTarget: box }) =>
              setAtEnd(box.scrollHeight - box.scrollTop - box.clientHeight < nearEndPx)
            }
          >
            {lines.map((line) => (
              <LogRow key={`${line.node_instance_id}/${line.seq}`} line={line} />
            ))}
          </div>
          {!atEnd && (
            <Button
              size="compact-xs"
              className={styles.toEnd}
              leftSection={<IconArrowDown size={13} aria-hidden />}
              onClick={scrollToEnd}
            >
              Show latest
            </Button>
          )}
        </div>
      )}
    </div>
  );
}
