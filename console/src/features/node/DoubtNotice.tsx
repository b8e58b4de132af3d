/** Warns that a verdict is held or only observed, so the status may not show the real state. */
import { Button } from '@mantine/core';
import type { Node } from '../../../../src/contract/node.ts';
import type { Explanation } from '../../../../src/contract/supervision/explanation.ts';
import { IconEye, IconPlayerPause } from '../../ui/icons.generated.ts';
import styles from '../../ui/status/StatusPanel.module.css';
import { toneStyle } from '../../ui/theme.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import type { Action } from '../actions/action.ts';
import { actionLabel } from '../actions/words.ts';
import { holdReason, openOffer } from './explanation.ts';
import { nodeAction } from './node-actions.ts';

interface Props {
  node: Node;
  explanation: Explanation;
  onAction: ((action: Action) => void) | undefined;
}

export function DoubtNotice({ node, explanation, onAction }: Props) {
  const { held, would_have, status } = explanation;
  const apply = openOffer(explanation, 'apply-held-verdict');
  return (
    <div className={styles.notice} style={toneStyle(held ? 'held' : 'warn')}>
      {held && (
        <div className={styles.noticeWords}>
          <IconPlayerPause size={18} aria-hidden />
          <div>
            <p>
              <b>
                Still {status} only because a verdict is held back: {held.rule} would make it {held.to}.
              </b>
            </p>
            <p>
              Held for <Ago at={held.since} asAge />, because {holdReason(held)}. The hold ends{' '}
              <Ago at={held.held_until} />; then {held.rule} decides again.
            </p>
          </div>
        </div>
      )}
      {would_have && (
        <div className={styles.noticeWords}>
          <IconEye size={18} aria-hidden />
          <div>
            <p>
              <b>
                The pool is observe-only: {would_have.rule} would have made this machine {would_have.to}.
              </b>
            </p>
            <p>
              <Ago at={would_have.at} />, because {would_have.reason}. The status did not change.
            </p>
          </div>
        </div>
      )}
      {onAction && apply && (
        <Button color="red" variant="light" onClick={() => onAction(nodeAction(node, apply))}>
          {actionLabel(apply.action)}
        </Button>
      )}
    </div>
  );
}
