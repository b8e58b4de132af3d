/** Who is signed in, with a menu that comes when it is asked for. */
import { lazy, Suspense, useState } from 'react';
import type { Session } from '../../../src/contract/token.ts';
import { AccountFace } from './AccountFace.tsx';

const load = () => import('./AccountMenu.tsx');
const AccountMenu = lazy(async () => ({ default: (await load()).AccountMenu }));

export function Account({ session, onHelp }: { session: Session; onHelp: () => void }) {
  const [wanted, setWanted] = useState(false);
  const face = (
    <AccountFace
      session={session}
      aria-haspopup="menu"
      aria-expanded={false}
      onPointerEnter={() => void load()}
      onClick={() => setWanted(true)}
    />
  );
  return wanted ? (
    <Suspense fallback={face}>
      <AccountMenu session={session} onHelp={onHelp} />
    </Suspense>
  ) : (
    face
  );
}
