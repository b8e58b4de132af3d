/** One concern: its subject, age, reason and actions. */

import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { describeCause } from '../../../../src/lifecycle/model/transitions.ts';
import { explanationQuery } from '../../api/queries/nodes.ts';
import { shortId } from '../../ui/layout/CopyId.tsx';
import { ownerWords, toSentence } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';
import type { Action } from '../actions/action.ts';
import { AffectedAllocation, QuarantinedBy, useFailingSince } from '../allocation/trouble-facts.tsx';
import { BootsLink } from '../boots/BootsLink.tsx';
import { aboutWords, suggestedBudget } from '../drift/words.ts';
import { waitingWords } from '../node/explanation.ts';
import { causeWords, costWords, residueName, whereWords } from '../residue/words.ts';
import { afterwardsWords, effectWords } from '../supervision/words.ts';
import styles from './Attention.module.css';
import { nextActions } from './attention-actions.ts';
import { type Concern, concernSince } from './concerns.ts';

interface RowText {
  title: ReactNode;
  /** For the accessible name of the buttons. */
  name: string;
  why: ReactNode;
  /** Short facts below the reason, such as the rule, the owner and the next try. */
  facts: ReactNode[];
}

const Code = ({ children }: { children: string }) => <code>{children}</code>;

/** The tooltip explains the name of the rule. */
const Rule = ({ name }: { name: string }) => (
  <span title={describeCause(name)}>
    rule: <code>{name}</code>
  </span>
);

function describe(concern: Concern): RowText {
  switch (concern.kind) {
    case 'server': {
      const { code, title, says, remedy, owner_layer } = concern.problem;
      const isRestored = code === 'database_restored';
      return {
        title: <Link to={isRestored ? '/restoration' : '/settings'}>{title}</Link>,
        name: title,
        why: says,
        facts: [isRestored ? 'Compare the machines, then let the servers act' : remedy, ownerWords(owner_layer)],
      };
    }
    case 'hold': {
      const { rule, scope, name, reason, effect, held_until } = concern.hold;
      return {
        title: <Link to="/supervision">{`${rule} in ${scope} ${name}`}</Link>,
        name: `${rule} in ${scope} ${name}`,
        why: `${toSentence(reason)} ${effectWords[effect]}`,
        facts: [
          <span key="until">
            ends in <Countdown at={held_until} />, {afterwardsWords[effect]}
          </span>,
        ],
      };
    }
    case 'sweep': {
      const { name, error } = concern.sweep;
      return { title: <Link to="/supervision">{name}</Link>, name, why: error, facts: [ownerWords('control_plane')] };
    }
    case 'release':
    case 'allocation': {
      const { allocation_id, name, pool, tenant, reason, owner_layer, verdict, release_tries, retry_at } =
        concern.allocation;
      return {
        title: (
          <Link to="/allocations/$id" params={{ id: allocation_id }}>
            {name ?? shortId(allocation_id)}
          </Link>
        ),
        name: name ?? allocation_id,
        why: reason,
        facts: [
          pool,
          `tenant: ${tenant}`,
          verdict && <Rule key="rule" name={verdict.rule} />,
          owner_layer && ownerWords(owner_layer),
          concern.kind === 'release' && (release_tries === 1 ? 'failed once' : `failed ${release_tries} times`),
          retry_at && (
            <span key="retry">
              next try <Ago at={retry_at} asDue />
            </span>
          ),
        ],
      };
    }
    case 'node': {
      const { node_id, name, pool, verdict, fence_reason, deadline_at, status, allocation_id } = concern.node;
      return {
        title: (
          <Link to="/nodes/$id" params={{ id: node_id }}>
            {name}
          </Link>
        ),
        name,
        why: verdict?.reason ?? fence_reason,
        facts: [
          pool,
          verdict && <Rule key="rule" name={verdict.rule} />,
          status === 'quarantined' ? (
            <QuarantinedBy key="by" node={concern.node} />
          ) : (
            verdict?.owner && ownerWords(verdict.owner)
          ),
          allocation_id && <AffectedAllocation key="allocation" allocation_id={allocation_id} />,
          status === 'offline' && deadline_at && (
            <span key="end">
              given up in <Countdown at={deadline_at} />
            </span>
          ),
          status === 'failed' && deadline_at && (
            <span key="end">
              {verdict?.certain ? 'it will not return by itself; ' : 'it may still return; '}taken down with proof in{' '}
              <Countdown at={deadline_at} />
            </span>
          ),
        ],
      };
    }
    case 'teardown': {
      const { node, operation, step } = concern;
      return {
        title: (
          <Link to="/operations/$id" params={{ id: operation.workflow_id }}>
            {node.name}
          </Link>
        ),
        name: node.name,
        why: `${step.label}: ${step.error?.message}`,
        facts: [
          node.pool,
          <Code key="kind">{operation.kind}</Code>,
          step.error && ownerWords(step.error.owner_layer),
          step.tries === 1 ? 'tried once' : `tried ${step.tries} times`,
          step.retry_at && (
            <span key="retry">
              next try <Ago at={step.retry_at} asDue />
            </span>
          ),
        ],
      };
    }
    case 'residue': {
      const { residue } = concern;
      return {
        title: <Link to="/residue">{residueName(residue)}</Link>,
        name: residueName(residue),
        why: toSentence(`${causeWords(residue)}: ${residue.reason}`),
        facts: [
          whereWords(residue),
          residue.cost_per_hour === null ? 'cost unknown' : <b key="cost">{costWords(residue.cost_per_hour)}</b>,
          residue.verified_at && (
            <span key="seen">
              last check <Ago at={residue.verified_at} />
            </span>
          ),
        ],
      };
    }
    case 'finding': {
      const { finding } = concern;
      const about = aboutWords(finding);
      if (finding.kind === 'boot-shift') {
        const more = suggestedBudget(finding);
        return {
          title: <BootsLink finding={finding}>{about}</BootsLink>,
          name: about,
          why: finding.says,
          facts: [
            <BootsLink key="boots" finding={finding}>
              see these boots
            </BootsLink>,
            more !== null && (
              <BootsLink key="budget" finding={finding} budget_seconds={more}>
                what a budget of {more} s would do
              </BootsLink>
            ),
            <Link key="pools" to="/pools">
              change the pool
            </Link>,
          ],
        };
      }
      return {
        title: finding.node_id ? (
          <Link to="/nodes/$id" params={{ id: finding.node_id }}>
            {shortId(about)}
          </Link>
        ) : (
          <Link to="/drift">{about}</Link>
        ),
        name: about,
        why: toSentence(finding.says),
        facts: [finding.pool, <Code key="kind">{finding.kind}</Code>],
      };
    }
  }
}

function FailingFor({ allocation }: { allocation: Allocation }) {
  const since = useFailingSince(allocation);
  return (
    since && (
      <span className={styles.since}>
        failing for <Ago at={since} asAge />
      </span>
    )
  );
}

/**
 * Reads the explanation of a machine, so that its row says the same as its page. The stream
 * invalidates the explanation, so it is not polled here.
 */
function useExplanation(concern: Concern) {
  const node = concern.kind === 'node' ? concern.node : null;
  const { data } = useQuery({
    ...explanationQuery(node?.node_id ?? ''),
    refetchInterval: false,
    enabled: node !== null,
  });
  return node && data ? { actions: data.actions, waiting: waitingWords(data, node) } : undefined;
}

interface Props {
  concern: Concern;
  /** Undefined for viewers. */
  onAction: ((action: Action) => void) | undefined;
}

export function AttentionRow({ concern, onAction }: Props) {
  const { title, name, why, facts } = describe(concern);
  const explained = useExplanation(concern);
  const actions = onAction ? nextActions(concern, explained?.actions) : [];
  const since = concernSince(concern);
  return (
    <li className={styles.row}>
      <div className={styles.words}>
        <p className={styles.line}>
          <b className={styles.name}>{title}</b>
          {concern.kind === 'release' ? (
            <FailingFor allocation={concern.allocation} />
          ) : (
            since && (
              <span className={styles.since}>
                for <Ago at={since} asAge />
              </span>
            )
          )}
        </p>
        <p className={styles.why}>{typeof why === 'string' ? toSentence(withLocalTimes(why)) : why}</p>
        <p className={styles.facts}>
          {[...facts, explained?.waiting && withLocalTimes(explained.waiting)].filter(Boolean).map((fact, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the facts have a fixed order and no ids
            <span key={at}>{fact}</span>
          ))}
        </p>
      </div>
      {onAction && actions.length > 0 && (
        <div className={styles.actions}>
          {actions.map(({ label, helps, open }, at) => (
            <Button
              key={label}
              size="compact-md"
              variant={helps && at === 0 ? 'filled' : 'default'}
              aria-label={`${label} ${name}`}
              onClick={() => onAction(open())}
            >
              {label}
            </Button>
          ))}
        </div>
      )}
    </li>
  );
}
