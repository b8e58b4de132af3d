/** Shows one fact: time, layer and summary. Unfolding the row shows the other fields. */

import { useState } from 'react';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { originMeans } from '../../../../src/lifecycle/explain/evidence-origins.ts';
import { IconChevronRight } from '../../ui/icons.generated.ts';
import { CopyId } from '../../ui/layout/CopyId.tsx';
import { Facts } from '../../ui/layout/Facts.tsx';
import { toneStyle } from '../../ui/theme.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { formatAbsolute, timeOfDay, withLocalTimes } from '../../ui/time/times.ts';
import { layerLooks, layerNames } from './layer-looks.ts';
import { OriginLabel } from './OriginLabel.tsx';
import styles from './Timeline.module.css';

export function TimelineRow({ fact }: { fact: Evidence }) {
  const [opened, setOpened] = useState(false);
  const { icon: Icon, tone, means } = layerLooks[fact.layer];
  return (
    <li className={styles.fact}>
      <details onToggle={(event) => setOpened(event.currentTarget.open)}>
        <summary className={styles.summary}>
          <time className={`${styles.time} tabular`} dateTime={fact.at} title={formatAbsolute(fact.at)}>
            {timeOfDay(fact.at)}
          </time>
          <span className={styles.lanes} style={toneStyle(tone)} title={`${fact.layer}: ${means}`}>
            {layerNames.map((name) => (
              <span key={name} className={styles.lane} data-here={name === fact.layer || undefined}>
                {name === fact.layer && <Icon size={14} aria-hidden />}
              </span>
            ))}
            <span className={styles.layer}>{fact.layer}</span>
          </span>
          <span className={styles.what}>
            <OriginLabel fact={fact} />
            {withLocalTimes(fact.summary)}
            {fact.actor && fact.origin !== 'person' && <span className={styles.actor}> · {fact.actor.name}</span>}
          </span>
          <IconChevronRight size={14} className={styles.chevron} aria-hidden />
        </summary>
        {opened && <FactDetails fact={fact} />}
      </details>
    </li>
  );
}

const id = (value: string | null) => value && <CopyId id={value} />;

const FactDetails = ({ fact }: { fact: Evidence }) => (
  <div className={styles.opened}>
    <Facts
      facts={[
        ['when', <Ago key="at" at={fact.at} />],
        ['kind', <code key="kind">{fact.kind}</code>],
        ['origin', `${fact.origin}: ${originMeans[fact.origin]}`],
        ['actor', fact.actor && `${fact.actor.name} (${fact.actor.kind})`],
        ['node_instance_id', id(fact.node_instance_id)],
        ['allocation_id', id(fact.allocation_id)],
        ['workflow_id', id(fact.workflow_id)],
        ['correlation_id', id(fact.correlation_id)],
        ['cursor', id(fact.cursor)],
      ]}
    />
    {Object.keys(fact.data).length > 0 && <pre className={styles.data}>{JSON.stringify(fact.data, null, 2)}</pre>}
  </div>
);
