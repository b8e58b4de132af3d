/** The start page. Lists everything that needs a person, worst first, with reasons and actions. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { failureOf, retryAfterSeconds } from '../../api/failure.ts';
import { mayOperate, seesWholeFleet, useSession } from '../../api/session.ts';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { PageHeader } from '../../ui/layout/PageHeader.tsx';
import { Panel } from '../../ui/layout/Panel.tsx';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { toneStyle } from '../../ui/theme.ts';
import type { Action } from '../actions/action.ts';
import { ActionDialog } from '../actions/lazy-dialog.ts';
import { RecoverDialog } from '../allocation/lazy-dialogs.ts';
import styles from './Attention.module.css';
import { AttentionRow } from './AttentionRow.tsx';
import { sectionLooks } from './attention-looks.ts';
import { attentionHeadline, concernId, countOf, type Section } from './concerns.ts';
import { NothingOpen } from './NothingOpen.tsx';
import { useAttention } from './use-attention.ts';

/** A section shows this many rows and links to the page that lists all of them. */
const maxRows = 5;
/** Offer bulk recovery from this many failed releases. */
const minFailedReleases = 2;

export function AttentionPage() {
  const { sections, known, isRead, isAll, error } = useAttention();
  const session = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const [isRecoverOpen, setIsRecoverOpen] = useState(false);
  const canAct = mayOperate(session);
  const failure = error && { reason: failureOf(error).title, retry_seconds: retryAfterSeconds(error) };
  const failedReleases = known.release_failed?.length ?? 0;
  return (
    <>
      <PageHeader
        title="Attention"
        tab="Attention"
        below={<span>{isRead ? attentionHeadline(countOf(sections), isAll, failure) : 'Loading …'}</span>}
        actions={
          canAct &&
          seesWholeFleet(session) &&
          failedReleases >= minFailedReleases && (
            <Button variant="default" onClick={() => setIsRecoverOpen(true)}>
              Recover all {failedReleases} releases…
            </Button>
          )
        }
      />
      {error && <FailurePanel error={error} />}
      {!isRead && (
        <Panel>
          <TableSkeleton />
        </Panel>
      )}
      {isRead && !error && sections.length === 0 && (
        <Panel>
          <NothingOpen known={known} />
        </Panel>
      )}
      {isRead && (
        <div className={styles.sections}>
          {sections.map((section) => (
            <SectionPanel key={section.name} section={section} onAction={canAct ? setAction : undefined} />
          ))}
        </div>
      )}
      <RecoverDialog opened={isRecoverOpen} onClose={() => setIsRecoverOpen(false)} pool={undefined} />
      <ActionDialog action={action} onClose={() => setAction(null)} />
    </>
  );
}

interface SectionProps {
  section: Section;
  onAction: ((action: Action) => void) | undefined;
}

function SectionPanel({ section: { name, concerns }, onAction }: SectionProps) {
  const { title, means, icon: Icon, tone, all } = sectionLooks[name];
  return (
    <section className={styles.section} style={toneStyle(tone)} aria-label={`${title}: ${concerns.length}`}>
      <div className={styles.head}>
        <Icon size={18} aria-hidden />
        <h2 className={styles.title}>{title}</h2>
        <span className={`${styles.count} tabular`}>{concerns.length}</span>
        <span className={styles.means}>{means}</span>
      </div>
      <ul className={styles.rows}>
        {concerns.slice(0, maxRows).map((concern) => (
          <AttentionRow key={concernId(concern)} concern={concern} onAction={onAction} />
        ))}
      </ul>
      {concerns.length > maxRows && (
        <div className={styles.more}>
          <Link to={all.to} search={all.search ?? {}}>
            Show all {concerns.length}
          </Link>
        </div>
      )}
    </section>
  );
}
