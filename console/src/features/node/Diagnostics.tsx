/** Shows the newest diagnostics collected from a machine, and its last probe. */

import { Skeleton } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { formatSize, readDiagnostics } from '../../../../src/lifecycle/findings/diagnostics.ts';
import { operationsQuery } from '../../api/queries/operations.ts';
import { timelineQuery } from '../../api/queries/timeline.ts';
import { IconStethoscope } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { toSentence } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { formatElapsed, formatPrecise } from '../../ui/time/durations.ts';
import styles from './Diagnostics.module.css';

/** Older diagnostics are on the timeline. */
const maxShown = 4;

export function Diagnostics({ node_id }: { node_id: string }) {
  const frozen = useInfiniteQuery(timelineQuery({ node_id, kind: 'evidence.frozen' }));
  const missing = useInfiniteQuery(timelineQuery({ node_id, kind: 'evidence.missing' }));
  const probes = useInfiniteQuery(operationsQuery({ node_id, kind: 'node-probe' }));
  const error = frozen.error ?? missing.error ?? probes.error;
  if (error) return <FailurePanel error={error} />;
  if (!frozen.data || !missing.data || !probes.data) return <Skeleton height={96} radius="md" />;
  const facts = [...frozen.data.pages, ...missing.data.pages]
    .flatMap((page) => page.items)
    .sort((one, other) => other.at.localeCompare(one.at))
    .slice(0, maxShown);
  const probe = probes.data.pages[0]?.items[0];
  if (facts.length === 0 && !probe) {
    return (
      <Empty icon={IconStethoscope} title="Nothing collected yet">
        <p>
          Use the action Collect diagnostics to ask the agent and the provider. Use Probe to check whether the machine
          answers.
        </p>
      </Empty>
    );
  }
  return (
    <div className={styles.diagnostics}>
      {probe && (
        <section aria-label="Last probe">
          <h2>Last probe</h2>
          <p>
            {toSentence(probe.error?.message || probe.progress.message || probe.status)} <Ago at={probe.created_at} />
          </p>
        </section>
      )}
      {facts.map((fact) => (
        <CollectedFact key={fact.cursor} fact={fact} />
      ))}
    </div>
  );
}

function CollectedFact({ fact }: { fact: Evidence }) {
  const { host, processes, boot_stages, lines, attachments } = readDiagnostics(fact.data);
  const source =
    fact.kind === 'evidence.missing'
      ? 'Not available'
      : fact.layer === 'provider'
        ? 'From the provider'
        : 'From the agent';
  return (
    <section aria-label={source}>
      <h2>
        {source} <Ago at={fact.at} />
      </h2>
      <p>{toSentence(fact.summary)}</p>
      {host && (
        <Facts
          facts={[
            ['Host', host.name],
            ['Up for', formatElapsed(host.uptime_seconds)],
            ['Load', host.load_average.map((each) => each.toFixed(2)).join(' ')],
            [
              'Boot',
              boot_stages
                .map(({ name, seconds }) => `${name}${seconds === null ? '' : ` ${formatPrecise(seconds)}`}`)
                .join(', '),
            ],
          ]}
        />
      )}
      {processes.length > 0 && (
        <Text
          title="Processes"
          text={processes
            .map(({ pid, state, rss_bytes, command }) =>
              [pid, state, rss_bytes === null ? '' : formatSize(rss_bytes), command].join('  '),
            )
            .join('\n')}
        />
      )}
      {lines.length > 0 && (
        <Text title="Last lines" text={lines.map(({ stream, line }) => `${stream}  ${line}`).join('\n')} />
      )}
      {attachments.map(({ name, text }) => (
        <Text key={name} title={name} text={text} />
      ))}
    </section>
  );
}

const Text = ({ title, text }: { title: string; text: string }) => (
  <>
    <h3>{title}</h3>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
    <section className={styles.text} aria-label={title} tabIndex={0}>
      {text}
    </section>
  </>
);
