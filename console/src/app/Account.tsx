/** Shows who is signed in; its menu loads on demand. */
import { useState } from 'react';
import type { Session } from '../../../src/contract/security/token.ts';
import { part, usePart } from '../ui/loading/lazy-part.tsx';
import { AccountFace } from './AccountFace.tsx';

interface Props {
  session: Session;
  onHelp: () => void;
}

const menu = part<Props>(async () => (await import('./AccountMenu.tsx')).AccountMenu);

export function Account({ session, onHelp }: Props) {
  const [wanted, setWanted] = useState(false);
  const { Part: AccountMenu } = usePart(menu, wanted);
  return wanted && AccountMenu ? (
    <AccountMenu session={session} onHelp={onHelp} />
  ) : (
    <AccountFace
      session={session}
      aria-haspopup="menu"
      aria-expanded={false}
      onPointerEnter={() => void menu.load().catch(() => {})}
      onClick={() => setWanted(true)}
    />
  );
}
