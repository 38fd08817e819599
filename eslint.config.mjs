import js from "@eslint/js";

// The files are joined into one script, so a name of one file is used in others: tsc finds unknown and unused ones.
export default [
  js.configs.recommended,
  {
    files: ["src/leveret/page/assets/*.js", "src/leveret/http/live/assets/*.js", "src/leveret/pipeline/report/assets/*.js", "docs/assets/playground/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "script" },
    rules: {
      "no-undef": "off",
      "no-unused-vars": ["error", { vars: "local" }],
      "no-redeclare": "off",
      "no-implicit-globals": "off",
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML", "write"].map((property) => ({
          property,
          message: "Text of a story becomes a text node.",
        })),
      ],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      eqeqeq: "error",
      "prefer-const": "error",
      "no-var": "error",
      "max-len": ["error", { code: 120, ignoreStrings: true, ignoreTemplateLiterals: true }],
      quotes: ["error", "double", { avoidEscape: true, allowTemplateLiterals: true }],
      semi: "error",
    },
  },
];
