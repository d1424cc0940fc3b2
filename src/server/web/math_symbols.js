// The commands of LaTeX that stand for one character or for a name, as text.

function table(text) {
  return new Map(text.trim().split(/\s+/).map((pair) => {
    const at = pair.lastIndexOf(':');
    return [pair.slice(0, at), pair.slice(at + 1)];
  }));
}

// Letters: italic unless they are large.
export const LETTERS = table(`
  alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι
  kappa:κ lambda:λ mu:μ nu:ν xi:ξ pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ upsilon:υ
  phi:ϕ varphi:φ chi:χ psi:ψ omega:ω Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ
  Phi:Φ Psi:Ψ Omega:Ω ell:ℓ hbar:ℏ imath:ı jmath:ȷ Re:ℜ Im:ℑ aleph:ℵ wp:℘ partial:∂ nabla:∇
  infty:∞ emptyset:∅ varnothing:∅ forall:∀ exists:∃ nexists:∄ top:⊤ bot:⊥ angle:∠ triangle:△
  square:□ blacksquare:■ degree:° ldots:… dots:… cdots:⋯ vdots:⋮ ddots:⋱ prime:′`);

export const OPERATORS = table(`
  cdot:⋅ times:× div:÷ pm:± mp:∓ ast:∗ star:⋆ circ:∘ bullet:∙ oplus:⊕ ominus:⊖ otimes:⊗ odot:⊙
  cap:∩ cup:∪ setminus:∖ wedge:∧ land:∧ vee:∨ lor:∨ neg:¬ lnot:¬ le:≤ leq:≤ ge:≥ geq:≥ ne:≠ neq:≠
  ll:≪ gg:≫ equiv:≡ sim:∼ simeq:≃ approx:≈ cong:≅ propto:∝ prec:≺ succ:≻ in:∈ notin:∉ ni:∋
  subset:⊂ supset:⊃ subseteq:⊆ supseteq:⊇ subsetneq:⊊ mid:∣ parallel:∥ perp:⊥ models:⊨ vdash:⊢
  to:→ rightarrow:→ leftarrow:← gets:← leftrightarrow:↔ Rightarrow:⇒ implies:⟹ Leftarrow:⇐
  Leftrightarrow:⇔ iff:⟺ mapsto:↦ longrightarrow:⟶ longmapsto:⟼ uparrow:↑ downarrow:↓
  hookrightarrow:↪ rightharpoonup:⇀ colon:: int:∫ iint:∬ iiint:∭ oint:∮ lbrace:{ rbrace:} lbrack:[
  rbrack:] langle:⟨ rangle:⟩ lfloor:⌊ rfloor:⌋ lceil:⌈ rceil:⌉ vert:| Vert:‖ lvert:| rvert:|
  lVert:‖ rVert:‖ backslash:\\ bmod:mod`);

// Operators whose scripts stand below and above them.
export const LARGE = table(`
  sum:∑ prod:∏ coprod:∐ bigcup:⋃ bigcap:⋂ bigoplus:⨁ bigotimes:⨂ bigvee:⋁ bigwedge:⋀ lim:lim
  limsup:limsup liminf:liminf max:max min:min sup:sup inf:inf argmax:argmax argmin:argmin det:det
  gcd:gcd Pr:Pr`);

export const FUNCTIONS = new Set((
  'sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp dim ker deg arg ' +
  'hom').split(' '));

export const ACCENTS = table(`
  hat:^ widehat:^ bar:¯ overline:¯ vec:→ overrightarrow:→ dot:˙ ddot:¨ tilde:~ widetilde:~ check:ˇ
  overbrace:⏞`);

export const UNDER_ACCENTS = table(`underline:_ underbrace:⏟`);

// In em.
export const SPACES = new Map([[',', .17], [':', .22], [';', .28], ['!', -.17], [' ', .25],
                               ['quad', 1], ['qquad', 2]]);

// The brackets around a matrix, and how its columns are set.
export const TABLES = new Map([
  ['matrix', ['', '']], ['smallmatrix', ['', '']], ['pmatrix', ['(', ')']], ['bmatrix', ['[', ']']],
  ['Bmatrix', ['{', '}']], ['vmatrix', ['|', '|']], ['Vmatrix', ['‖', '‖']], ['array', ['', '']],
  ['cases', ['{', '']], ['aligned', ['', '']], ['align', ['', '']], ['align*', ['', '']],
  ['split', ['', '']], ['gathered', ['', '']], ['gather', ['', '']], ['gather*', ['', '']],
  ['equation', ['', '']], ['equation*', ['', '']]]);
